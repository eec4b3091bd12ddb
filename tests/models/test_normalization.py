from __future__ import annotations

import math

import pytest
import torch

from robust_attn.models.normalization import layer_norm_radius, rms_norm_radius


def test_a_layer_norm_attains_its_radius_without_bias_and_with_one_large_weight():
    norm = torch.nn.LayerNorm(2, eps=0.0, bias=False, dtype=torch.float64)
    norm.weight.data = torch.tensor([3.0, -3.0], dtype=torch.float64)
    radius = layer_norm_radius(norm.weight, norm.bias)
    assert radius == pytest.approx(3 * math.sqrt(2), rel=1e-14)
    assert float(norm(torch.tensor([5.0, -1.0], dtype=torch.float64)).detach().norm()) == pytest.approx(
        radius, rel=1e-14
    )


def test_the_bias_adds_its_norm():
    weight, bias = torch.tensor([1.0, 2.0, -4.0, 0.0]), torch.tensor([0.0, 3.0, 4.0, 0.0])
    assert layer_norm_radius(weight, bias) == pytest.approx(2 * 4 + 5, rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_rounding_never_takes_a_token_out_of_the_radius(dtype):
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    points = 1e3 * torch.randn(20000, 96, generator=torch.Generator().manual_seed(0)).to(dtype)
    rms = LlamaRMSNorm(96, eps=1e-6).to(dtype)
    layer = torch.nn.LayerNorm(96, dtype=dtype, eps=1e-12)
    assert float(rms(points).detach().double().norm(dim=-1).max()) <= rms_norm_radius(rms.weight)
    assert float(layer(points).detach().double().norm(dim=-1).max()) <= layer_norm_radius(layer.weight, layer.bias)

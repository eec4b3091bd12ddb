from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from robust_attn.models.generic.radius import norm_radius
from robust_attn.models.normalization import layer_norm_radius, rms_norm_radius

GAIN = torch.linspace(-2, 1.5, 9)
SHIFT = torch.linspace(0, 1, 9)


def normed(bias=True):
    norm = nn.LayerNorm(9, bias=bias)
    norm.weight.data = GAIN.clone()
    if bias:
        norm.bias.data = SHIFT.clone()
    return norm


class OneMore(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(GAIN.clone())

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * (1 + self.weight)


class Squashed(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(GAIN.clone())

    def forward(self, x):
        return torch.tanh(x) * self.weight


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("norm", "radius"),
    [
        (normed(), lambda: layer_norm_radius(GAIN, SHIFT)),
        (normed(bias=False), lambda: layer_norm_radius(GAIN, None)),
        (nn.LayerNorm(9, elementwise_affine=False), lambda: layer_norm_radius(torch.ones(9), None)),
        (OneMore(), lambda: rms_norm_radius(1 + GAIN)),
    ],
    ids=["layer", "no bias", "no gain", "one more"],
)
def test_norms_are_known_by_what_they_compute(norm, radius, dtype):
    norm = copy.deepcopy(norm).to(dtype)
    found = norm_radius(norm, dtype)
    assert found == pytest.approx(radius(), rel=1e-5 if dtype != torch.bfloat16 else 0.08)
    vectors = 5 * torch.randn(500, 9, generator=torch.Generator().manual_seed(0)).to(dtype)
    assert float(norm(vectors).detach().double().norm(dim=-1).max()) <= found


@pytest.mark.parametrize("module", [Squashed(), nn.BatchNorm1d(9), nn.GroupNorm(3, 9), nn.Identity()], ids=str)
def test_what_is_no_norm_of_tokens_has_no_radius(module):
    assert norm_radius(module, torch.float32) is None

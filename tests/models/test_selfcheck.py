from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from robust_attn.attention.mask import Mask
from robust_attn.models import load_model
from robust_attn.models.generic.adapter import GenericAdapter
from robust_attn.models.registry import adapter_for
from robust_attn.models.selfcheck import checked_differences, relative_difference
from robust_attn.types import UserError

SIZES = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
TENSORS = ["query", "query_bias", "key", "value", "output", "offset"]
"""Not key_bias: without rotary positions it moves all logits of a row alike, which a softmax does not see."""


def _small():
    model = load_model("bert", "random", sizes=SIZES)
    # Attention of freshly drawn weights is almost uniform: sharpen it, so that queries and keys matter.
    for block in model.module.encoder.layer:
        for name in ("query", "key"):
            linear = getattr(block.attention.self, name)
            linear.weight.mul_(20)
            torch.nn.init.normal_(linear.bias, generator=torch.Generator().manual_seed(0))
    return model, adapter_for("bert").taken_out(model.module).attached, torch.arange(20).view(2, 10)


def test_the_unaltered_layers_pass():
    model, attached, batch = _small()
    assert max(checked_differences(model.module, attached, batch, torch.float64)) <= 1e-10


@pytest.mark.parametrize("name", TENSORS)
def test_one_altered_number_is_refused(name):
    model, attached, batch = _small()
    tensor = getattr(attached[1].weights, name).clone(memory_format=torch.contiguous_format)
    tensor.view(-1)[3] += 1e-3
    altered = replace(attached[1], weights=replace(attached[1].weights, **{name: tensor}))
    with pytest.raises(UserError, match=r"layer 1 taken out of the model differs .* refused"):
        checked_differences(model.module, (attached[0], altered), batch, torch.float64)


@pytest.mark.parametrize("change", [{"mask": Mask.CAUSAL}, {"scale": 0.25}])
def test_a_wrong_mask_or_scale_is_refused(change):
    model, attached, batch = _small()
    altered = replace(attached[0], weights=replace(attached[0].weights, **change))
    with pytest.raises(UserError, match="layer 0 taken out"):
        checked_differences(model.module, (altered, attached[1]), batch, torch.float64)


def test_a_model_that_computes_nan_is_refused():
    model, attached, batch = _small()
    model.module.embeddings.word_embeddings.weight[3] = torch.nan
    with pytest.raises(UserError, match="nan"):
        checked_differences(model.module, attached, batch, torch.float64)


def test_the_difference_is_relative_to_the_largest_output():
    assert relative_difference(torch.tensor([1.0, 4.5]), torch.tensor([1.0, 4.0])) == pytest.approx(0.125)
    assert relative_difference(torch.tensor([torch.inf]), torch.tensor([1.0])) == torch.inf


def test_a_mistake_that_bfloat16_would_hide_is_found_in_float64(monkeypatch):
    """Queries one per cent too long: far within what bfloat16 differs anyway."""
    right = GenericAdapter.taken_out

    def too_long(adapter, module):
        taken = right(adapter, module)
        longer = tuple(
            replace(layer, weights=replace(layer.weights, query=1.01 * layer.weights.query)) for layer in taken.attached
        )
        return replace(taken, attached=longer)

    monkeypatch.setattr(GenericAdapter, "taken_out", too_long)
    with pytest.raises(UserError, match=r"more than 1e-10 in torch\.float64"):
        load_model("bert", "random", dtype=torch.bfloat16, sizes=SIZES)

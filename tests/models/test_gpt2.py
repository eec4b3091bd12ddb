from __future__ import annotations

import pytest
import torch

from robust_attn.attention.mask import Mask
from robust_attn.models import load_model


def test_heads_are_slices_of_columns(small_sizes):
    model = load_model("gpt2", "random", sizes=small_sizes["gpt2"])
    conv = model.module.transformer.h[1].attn.c_attn
    layer = model.layer(1)
    torch.testing.assert_close(layer.query[1], conv.weight[:, 12:24].T)
    torch.testing.assert_close(layer.key[2], conv.weight[:, 48 + 24 : 48 + 36].T)
    torch.testing.assert_close(layer.value[3], conv.weight[:, 96 + 36 : 96 + 48].T)


def test_a_later_token_changes_nothing_before_it(small_sizes):
    model = load_model("gpt2", "random", sizes=small_sizes["gpt2"])
    ids = torch.arange(10, 18)[None]
    changed = ids.clone()
    changed[0, 5] = 99
    before, after = (model.inputs_at([2], batch)[2] for batch in (ids, changed))
    layer = model.layer(2)
    assert layer.mask is Mask.CAUSAL
    moved = (layer(before) - layer(after)).norm(dim=-1)[0]
    assert float(moved[:5].max()) < 1e-12
    assert float(moved[5:].min()) > 1e-6


@pytest.mark.parametrize(("scaled", "inverse"), [(True, True), (False, True), (False, False)])
def test_both_settings_of_the_scale_are_honoured(scaled, inverse, small_sizes):
    sizes = {**small_sizes["gpt2"], "scale_attn_weights": scaled, "scale_attn_by_inverse_layer_idx": inverse}
    model = load_model("gpt2", "random", sizes=sizes)  # the self-check has compared it with the model
    width = 12**-0.5 if scaled else 1.0
    scales = [model.layer(index).scale for index in range(3)]
    assert scales == pytest.approx([width / (index + 1) if inverse else width for index in range(3)])

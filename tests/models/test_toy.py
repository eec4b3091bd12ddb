from __future__ import annotations

import pytest
import torch

from robust_attn.attention.measure import TokenMeasure
from robust_attn.models import load_model
from robust_attn.types import UserError


def test_the_layer_is_torchs_own_attention():
    model = load_model("toy")
    points = torch.randn(2, 5, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for index, attention in enumerate(model.module.attentions):
        theirs = attention(points, points, points, need_weights=False)[0]
        torch.testing.assert_close(model.layer(index)(TokenMeasure.uniform(points)), theirs)


def test_it_is_random_by_nature_so_auto_needs_no_excuse():
    model = load_model("toy", seed=7)
    assert (model.origin.label, model.origin.note, model.max_tokens) == ("random:7", None, None)
    with pytest.raises(UserError, match="no trained weights of toy"):
        load_model("toy", "pretrained")
    with pytest.raises(UserError, match="random weights only"):
        load_model("toy", "/tmp")


def test_odd_widths_work():
    assert load_model("toy", sizes={"width": 9, "heads": 3}).layer(0).width == 9

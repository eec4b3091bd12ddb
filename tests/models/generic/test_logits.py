"""Logits by product, scale, mask and bias."""

from __future__ import annotations

import pytest
import torch

from robust_attn.models.generic.logits import fitted_logits

G = torch.Generator().manual_seed(0)
QUERY, KEY = (torch.randn(2, 3, 5, 4, generator=G, dtype=torch.float64) for _ in range(2))
PRODUCT = QUERY @ KEY.transpose(-1, -2)
BIAS = torch.randn(1, 3, 5, 5, generator=G, dtype=torch.float64)
AHEAD = torch.ones(5, 5, dtype=torch.bool).triu(1)


def fit(logits):
    return fitted_logits(QUERY, KEY, logits, logits.softmax(-1))


@pytest.mark.parametrize("scale", [1.0, 0.5, 0.3])
def test_a_scale_alone_leaves_no_mask(scale):
    found = fit(scale * PRODUCT)
    assert found.exact
    assert found.mask is None
    assert found.scale == pytest.approx(scale, rel=1e-14)
    if scale != 0.3:  # one, and one over the root of the width, are those numbers
        assert found.scale == scale


@pytest.mark.parametrize("hidden", [torch.finfo(torch.float32).min, -torch.inf])
def test_a_bias_and_a_mask_are_what_is_left(hidden):
    found = fit((PRODUCT / 2 + BIAS).masked_fill(AHEAD, hidden))
    assert found.exact
    assert torch.equal(found.mask < -1e30, AHEAD.expand(1, 3, 5, 5))
    seen = found.mask.masked_fill(AHEAD, 0.0)
    torch.testing.assert_close(seen, BIAS.masked_fill(AHEAD, 0.0), rtol=0, atol=1e-14)


def test_tokens_at_a_constant_logit_of_weight_zero_are_hidden():
    found = fit(PRODUCT.masked_fill(AHEAD, -1e4))
    assert found.exact
    assert torch.equal(found.mask == -torch.inf, AHEAD.expand(1, 3, 5, 5))


def test_ten_thousand_less_is_a_bias_and_no_mask():
    found = fit(PRODUCT - 1e4 * AHEAD.double())
    assert found.exact
    assert float(found.mask.min()) == pytest.approx(-1e4)


def test_a_number_per_row_changes_nothing():
    found = fit(PRODUCT - PRODUCT.amax(-1, keepdim=True))
    assert found.exact
    assert found.mask is None
    assert found.scale == 1.0


def test_what_depends_on_the_sample_is_not_exact():
    assert not fit(PRODUCT + torch.randn(2, 3, 5, 5, generator=G, dtype=torch.float64)).exact
    assert not fit(PRODUCT.masked_fill(torch.stack((AHEAD, AHEAD.T))[:, None], -torch.inf)).exact
    assert not fit(PRODUCT * torch.nan).exact

"""Rivals are the same maps, and strikes are what they say."""

import math
from dataclasses import replace

import pytest
import torch

from robust_attn.soundness.case import Case
from robust_attn.soundness.exact import exact_change
from robust_attn.soundness.numbers import budget_of, measures_of, stored_layer
from robust_attn.soundness.strike import centre_of, centred, exact_product, rival_layer, seen_clearly, strike

CASE = Case(6, tokens=3, width=2, groups=2, out=2, radius=0.1, bias_size=1.0, judged="exact", support="number")
FAR = replace(CASE, points="shifted", distance=1e7, token_size=1e-3, radius=1e-4, logit_size=1e-2, support="none")


@pytest.mark.parametrize("mask", ["none", "causal"])
@pytest.mark.parametrize("scale", ["usual", "negative", "zero"])
def test_a_rival_is_the_same_map_up_to_a_constant(mask, scale):
    layer = stored_layer(replace(CASE, mask=mask, scale=scale))
    sample = measures_of(CASE, layer).sample(0)
    centre = centre_of(sample)
    rival, near = rival_layer(layer, centre), centred(sample, centre)
    moved = torch.tensor([[0.3, -0.1], [0.0, 0.2], [-0.4, 0.0]], dtype=torch.float64)
    before, after = (f(x.with_points(x.points + moved)) - f(x) for f, x in ((layer, sample), (rival, near)))
    assert torch.allclose(before, after, atol=1e-12)


def test_rotary_positions_have_no_rival():
    with pytest.raises(ValueError, match="rotary"):
        rival_layer(stored_layer(replace(CASE, rotary=True)), torch.zeros(2, dtype=torch.float64))


def test_a_product_is_rounded_once():
    left = torch.tensor([[1e8, 1.0, -1e8]], dtype=torch.float64)
    right = torch.tensor([[1e8], [1e-9], [1e8]], dtype=torch.float64)
    assert float(exact_product(left, right)) == 1e-9


def test_a_product_that_no_float_holds_is_infinite():
    large = torch.tensor([[1e200, -1e200]], dtype=torch.float64)
    assert exact_product(large[:, :1], large).tolist() == [[math.inf, -math.inf]]


@pytest.mark.parametrize("change", [{"logit_size": 1e97, "stored": "bfloat16"}, {"logit_size": 1e158}])
def test_weights_or_products_beyond_floats_have_no_rival(change):
    """Stored in bfloat16 the weights are infinite; in float64 their products are."""
    case = replace(CASE, **change)
    layer = stored_layer(case).to(torch.float64)
    inputs = measures_of(case, layer)
    budget = budget_of(case, inputs)
    assert seen_clearly(case, layer, inputs.sample(0), budget)[0] is layer
    if case.stored == "bfloat16":
        assert not strike(case, layer, inputs.sample(0), budget, 0).usable


def test_a_strike_beside_exact_arithmetic_is_the_change_that_it_says():
    layer = stored_layer(CASE)
    inputs = measures_of(CASE, layer)
    hit = strike(CASE, layer, inputs.sample(0), budget_of(CASE, inputs), 0)
    assert hit.exact
    assert hit.usable
    again = exact_change(layer, hit.base, hit.base.points + hit.displacement, hit.budget)
    assert hit.change == pytest.approx(again.output_lower, rel=1e-9)
    floats = strike(replace(CASE, judged="floats"), layer, inputs.sample(0), budget_of(CASE, inputs), 0)
    assert floats.rounding > 0
    assert hit.change >= floats.change * 0.99


def test_far_tokens_are_attacked_where_floats_see_them():
    """In place, rounding is a hundred times the change; the rival finds what moving by the radius can do."""
    layer = stored_layer(FAR)
    inputs = measures_of(FAR, layer)
    hit = strike(FAR, layer, inputs.sample(0), budget_of(FAR, inputs), 0)
    blind = strike(replace(FAR, judged="floats"), layer, inputs.sample(0), budget_of(FAR, inputs), 0)
    assert hit.usable
    assert blind.rounding > 10 * hit.change > 0


def test_a_split_measure_is_judged_as_it_is_written():
    case = replace(CASE, attack="mass_split")
    layer = stored_layer(case)
    inputs = measures_of(case, layer)
    hit = strike(case, layer, inputs.sample(0), budget_of(case, inputs), 0)
    assert hit.usable
    assert hit.base.length == 6

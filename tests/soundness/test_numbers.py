from dataclasses import replace

import pytest
import torch

from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import TokenRadius
from robust_attn.soundness.case import AGAINST_START, CANCELLING, Case
from robust_attn.soundness.drawing import drawn
from robust_attn.soundness.numbers import (
    ATTACKS,
    TOPS,
    budget_of,
    chance,
    layer_of,
    measures_of,
    published_start,
    stored_layer,
    weights_of,
)
from robust_attn.soundness.strike import exact_product

LARGE = Case(3, samples=(0, 1), tokens=7, width=4, groups=2, sharing=2, head_width=4, out=3, bias_size=1.0)


def test_a_smaller_case_is_the_same_one_with_the_rest_left_out():
    small = replace(LARGE, tokens=3, width=2, groups=1, out=2, samples=(1,))
    layer, part = layer_of(LARGE), layer_of(small)
    assert torch.equal(part.query, layer.query[:2, :, :2])
    assert torch.equal(part.key, layer.key[:1, :, :2])
    assert torch.equal(part.output, layer.output[:2, :2])
    assert torch.equal(measures_of(small, part).points[0], measures_of(LARGE, layer).points[1, :3, :2])


def test_stored_precision_rounds_the_weights_and_keeps_them():
    exact, stored = layer_of(LARGE), layer_of(replace(LARGE, stored="bfloat16"))
    assert stored.dtype == torch.float32
    assert torch.equal(stored.query, exact.query.bfloat16().float())
    assert not torch.equal(stored.query.double(), exact.query)


@pytest.mark.parametrize("points", ["constant", "repeated", "one_far", "adversarial", "normal"])
@pytest.mark.parametrize("masses", ["uniform", "unequal", "extreme", "padded"])
def test_measures_are_measures(points, masses):
    case = replace(LARGE, points=points, masses=masses)
    found = measures_of(case, layer_of(case))
    assert found.points.shape == (2, 7, 4)
    assert torch.allclose(found.masses.sum(-1), torch.ones(2).double())
    if points == "constant":
        assert bool((found.points == found.points[:, :1]).all())


def test_zero_weights_attend_evenly_and_alike_heads_are_alike():
    assert float(layer_of(replace(LARGE, weights="zero")).query.abs().max()) == 0
    alike = layer_of(replace(LARGE, weights="alike"))
    assert torch.equal(alike.query[0], alike.query[-1])
    assert int(torch.linalg.matrix_rank(layer_of(replace(LARGE, weights="one_row")).query[0])) == 1


def test_every_attack_and_budget_drawn_is_known():
    for case in map(drawn, range(300)):
        assert case.attack in ATTACKS
        inputs = measures_of(case, layer_of(case))
        assert budget_of(case, inputs).kind == case.budget


def test_supports_are_none_the_tokens_own_or_a_multiple_of_the_largest():
    inputs = measures_of(LARGE, layer_of(LARGE))
    supports = {
        kind: budget_of(replace(LARGE, support=kind, support_times=7.0), inputs).support
        for kind in ("none", "tokens", "number")
    }
    assert supports["none"] is None
    assert isinstance(supports["tokens"], TokenRadius)
    assert supports["number"] == pytest.approx(7 * float(inputs.radius.max()))


@pytest.mark.parametrize(("scale", "sign"), [("usual", 1), ("negative", -1), ("zero", 0)])
def test_scales_have_every_sign(scale, sign):
    assert layer_of(replace(LARGE, scale=scale)).scale == sign * 4**-0.5


def test_functions_of_the_library_get_layers_as_they_are_stored():
    for stored, tokens in (("float64", "float64"), ("float32", "float32"), ("bfloat16", "float32")):
        case = replace(LARGE, stored=stored)
        assert stored_layer(case).dtype == getattr(torch, stored)
        assert measures_of(case, stored_layer(case)).points.dtype == getattr(torch, tokens)


@pytest.mark.parametrize("points", ["shifted", "shifted_line"])
def test_points_far_away_differ_as_little_as_points_near(points):
    far = replace(LARGE, points=points, distance=1e6)
    found = measures_of(far, layer_of(far)).points
    assert float((found[..., 0] - 1e6).abs().max()) < 10
    if points == "shifted_line":
        assert bool((found[..., :-1] == found[:, :1, :-1]).all())
        assert not bool((found[..., -1] == found[:, :1, -1]).all())


def test_the_default_start_is_left_to_weights_that_are_against_one():
    assert chance(LARGE) == {"seed": 3}
    assert chance(replace(LARGE, weights="against_library_start")) == {}


CASE = Case(4, tokens=3, width=3, groups=2, head_width=4, out=2, cancelling_size=1e8)
HIDDEN = Case(4, tokens=2, width=144, out=144)


@pytest.mark.parametrize("kind", CANCELLING)
def test_large_weights_cancel_up_to_rounding_and_not_exactly(kind):
    found = weights_of(replace(CASE, weights=kind))
    for name, left, right in (
        (CANCELLING[0], found.output[0], found.value[0]),
        (CANCELLING[1], found.key[0].T, found.query[0]),
    ):
        if kind in (name, CANCELLING[2]):
            assert float(left.abs().max()) > 1e7
            assert float(right.abs().max()) > 1e7
            assert 0 < float(exact_product(left, right).abs().max()) < 100
        else:
            assert float(left.abs().max()) < 10


@pytest.mark.parametrize("kind", AGAINST_START)
def test_the_top_direction_is_hidden_from_the_start_and_no_other_is(kind):
    case = replace(HIDDEN, weights=kind)
    _, values, right = torch.linalg.svd(weights_of(case).output[0])
    assert float(values[0]) == pytest.approx(TOPS[kind])
    assert float(values[1]) <= 1 + 1e-12
    seen = right @ published_start(case).sum(0)
    assert float(seen[0].abs()) < 1e-12
    assert int((seen[1:].abs() > 1e-6).sum()) == 143


def test_attention_is_even_where_a_start_is_meant():
    layer = layer_of(replace(HIDDEN, weights=AGAINST_START[0]))
    points = torch.randn(2, 144, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    outputs = layer(TokenMeasure.uniform(points)) - layer.offset
    assert torch.allclose(outputs, (points.mean(0) @ layer.output[0].T).expand(2, -1))


def test_the_starts_are_those_of_the_library_and_of_the_command_line():
    first = torch.randn(1, 2, 144, generator=torch.Generator().manual_seed(0), dtype=torch.float64)[0]
    assert torch.equal(published_start(replace(HIDDEN, weights=AGAINST_START[0])), first)
    other = published_start(replace(HIDDEN, weights=AGAINST_START[1]))
    assert not torch.equal(other, first)
    assert not torch.equal(other, published_start(replace(HIDDEN, weights=AGAINST_START[1], seed=5)))


def test_sparse_weights_have_zeros_and_blind_keys_miss_the_last_coordinate():
    assert 0 < int((weights_of(replace(CASE, weights="sparse")).query == 0).sum()) < 24
    blind = weights_of(replace(CASE, weights="blind"))
    assert bool((blind.key[..., -1] == 0).all())
    assert bool((blind.query != 0).all())

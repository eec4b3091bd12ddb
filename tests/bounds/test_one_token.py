"""What one token moved alone can do at most, against random and ascended displacements of every token."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.moved_token import MovedToken, strongest_displacement
from robust_attn.bounds.one_token import OneToken, moved_weights
from robust_attn.budget import Frobenius, Wasserstein
from tests.cases import ADDED_CASES, MORE_CASES, NORM_CASES, Case, generator, random_layer, random_measure

KNOWN = [*MORE_CASES, *(case for case in ADDED_CASES if not case.sinks)]


def change_of(layer: AttentionLayer, measure: TokenMeasure, budget, token: int, displacement) -> float:
    points = measure.points.clone()
    points[token] += displacement
    return float(budget.norm(layer(measure.with_points(points)) - layer(measure), measure))


def tokens_of(measure: TokenMeasure) -> list[int]:
    return measure.present.nonzero()[:, 0].tolist()


@pytest.mark.parametrize("case", KNOWN, ids=str)
@pytest.mark.parametrize("radius", [0.02, 1.5])
def test_no_displacement_of_one_token_exceeds_its_bound(case: Case, radius: float):
    """At random, and by ascent; the one for any token is no smaller, and the quick one for all of them neither."""
    layer, measure = random_layer(case, generator(0), scale=1.0), random_measure(case, generator(1)).sample(0)
    budget = Wasserstein(radius)
    bounds, at = OneToken.of(layer, measure, budget), layer.linearize(measure)
    upper = {token: bounds.change(token) for token in tokens_of(measure)}
    for token, most in upper.items():
        reach = radius / math.sqrt(float(measure.masses[token]))
        drawn = torch.randn(measure.width, generator=generator(token), dtype=torch.float64)
        climbed = strongest_displacement(MovedToken.of(at, token), measure.masses, reach, steps=8)
        for displacement in (drawn * (reach / drawn.norm()), climbed):
            assert change_of(layer, measure, budget, token, displacement) <= most
        assert most <= float(bounds.each[token])
    assert bounds.largest()[1] == max(upper.values())
    assert max(upper.values()) <= bounds.hull


def test_the_bound_scales_with_the_values():
    case = Case(rotary=True, mask=Mask.CAUSAL)
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1)).sample(0)
    larger = replace(layer, output=7 * layer.output)
    once, more = (OneToken.of(each, measure, Wasserstein(0.1)).change(1) for each in (layer, larger))
    assert more == pytest.approx(7 * once, rel=1e-9)


def test_the_norm_of_all_coordinates_is_that_of_the_masses_times_the_root_of_their_number():
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1)).sample(0)
    root = math.sqrt(measure.length)
    averaged, whole = (OneToken.of(layer, measure, each) for each in (Wasserstein(0.1), Frobenius(0.1 * root)))
    assert whole.change(0) == pytest.approx(root * averaged.change(0), rel=1e-9)


def scalars(values: list[float], mask: Mask = Mask.NONE) -> tuple[AttentionLayer, TokenMeasure]:
    """The head with A = 0 and V = 1: every row is the mean of what it sees."""
    one = torch.ones(1, 1, dtype=torch.float64)
    points = torch.tensor(values, dtype=torch.float64)[:, None]
    return AttentionLayer.single_head(0 * one, one, mask=mask), TokenMeasure.uniform(points)


def test_two_tokens_by_hand():
    """x = (0, 1), both means 1/2, D = 0.1 sqrt 2. Token 1 moves: row 0 by D / 2; row 1 within the hull, 1/2 + D."""
    layer, measure = scalars([0.0, 1.0])
    far = 0.1 * math.sqrt(2)
    expected = math.sqrt(((far / 2) ** 2 + (0.5 + far) ** 2) / 2)
    assert OneToken.of(layer, measure, Wasserstein(0.1)).change(1) == pytest.approx(expected, rel=1e-9)


def test_the_first_token_of_a_causal_mean_is_solved_exactly():
    """Row 0 sees itself alone and moves by D, row 1 by D / 2: the bound is the change of every displacement."""
    layer, measure = scalars([0.0, 1.0], Mask.CAUSAL)
    budget, far = Wasserstein(0.1), 0.1 * math.sqrt(2)
    bound = OneToken.of(layer, measure, budget).change(0)
    attained = change_of(layer, measure, budget, 0, torch.tensor([far], dtype=torch.float64))
    assert attained == pytest.approx(math.sqrt((far**2 + (far / 2) ** 2) / 2), rel=1e-12)
    assert attained <= bound == pytest.approx(attained, rel=1e-9)


@given(p=st.floats(1e-12, 1 - 1e-12), turn=st.floats(0, 30), part=st.floats(-1, 1))
def test_how_far_one_weight_goes_when_its_logit_moves(p, turn, part):
    """docs/proofs/local.md#one-token, for every t between the ends, where both are attained."""

    def moved(t: float) -> tuple[float, float]:
        raised = math.expm1(t)
        return abs(p * raised / (1 + p * raised)), p * (1 + raised) / (1 + p * raised)

    ratio, after = (float(value) for value in moved_weights(*torch.tensor([p, turn], dtype=torch.float64)))
    change, weight = moved(part * turn)
    assert change <= ratio * (1 + 1e-9) + 1e-15
    assert weight <= after * (1 + 1e-9)
    assert ratio == pytest.approx(max(moved(turn)[0], moved(-turn)[0]), rel=1e-6, abs=1e-15)


@pytest.mark.parametrize("case", [each for each in (*ADDED_CASES, *NORM_CASES) if each.sinks or each.norm != "none"])
def test_layers_that_it_does_not_know_are_refused(case: Case):
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1)).sample(0)
    with pytest.raises(ValueError, match="not known"):
        OneToken.of(layer, measure, Wasserstein(0.1))
    with pytest.raises(ValueError, match="not known"):
        MovedToken.of(layer.linearize(measure), 0)


def test_sizes_that_floats_cannot_speak_of_are_not_a_number():
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1)).sample(0)
    bounds = OneToken.of(layer, measure.with_points(measure.points * 1e200), Wasserstein(0.1))
    assert math.isnan(bounds.largest()[1])
    assert math.isnan(bounds.change(0))

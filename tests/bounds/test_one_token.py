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
from robust_attn.attention.rotary import Rotary
from robust_attn.attention.rounding import UNIT, Rounding
from robust_attn.bounds import one_token
from robust_attn.bounds.one_token import OneToken, moved_weights
from robust_attn.budget import Frobenius, Wasserstein
from robust_attn.spectral.matrix_norms import norm_upper
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


def by_masses() -> tuple[AttentionLayer, TokenMeasure]:
    """Queries 1, keys -x, values x, V = 2: masses (1/4, 3/4) at (0, -ln 3) draw P = (1/10, 9/10) in both rows."""
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    none = torch.zeros(1, 1, dtype=torch.float64)
    layer = AttentionLayer(
        query=0 * one,
        query_bias=none + 1,
        key=2 * one,
        key_bias=none,
        value=one,
        output=2 * one,
        offset=none[0],
        scale=-0.5,
    )
    points = torch.tensor([[0.0], [-math.log(3)]], dtype=torch.float64)
    return layer, TokenMeasure.weighted(points, torch.tensor([0.25, 0.75], dtype=torch.float64))


def test_a_token_that_draws_a_tenth_and_one_that_draws_the_rest_by_hand():
    """u = (0, -2 ln 3), m = -1.8 ln 3, so the tokens are 1.8 ln 3 and 0.2 ln 3 from it; |g| = 1 and |V| = 2.

    Token 0 goes D = 0.1 / sqrt(1/4) = 0.2: rising, rho = 0.1 b / (0.1 + 0.9 (1 - b)), P^+ = 0.1 / (0.1 + 0.9 (1 - b))
    with b = 1 - e^-0.2; its own row 1.8 ln 3 + 2 D. Token 1 goes D = 0.1 / sqrt(3/4): falling,
    rho = 0.9 b / (0.1 + 0.9 (1 - b)), P^+ = 0.9 / (0.9 + 0.1 (1 - b)); its own row stays within 1.8 ln 3.
    """
    layer, measure = by_masses()
    bounds, log3 = OneToken.of(layer, measure, Wasserstein(0.1)), math.log(3)
    left = math.exp(-0.2)
    other = (0.1 * (1 - left) * 1.8 * log3 + 0.1 * 2 * 0.2) / (0.1 + 0.9 * left)
    light = math.sqrt(0.25 * (1.8 * log3 + 2 * 0.2) ** 2 + 0.75 * other**2)
    far = 0.1 / math.sqrt(0.75)
    left = math.exp(-far)
    other = 0.9 * (1 - left) / (0.1 + 0.9 * left) * 0.2 * log3 + 0.9 / (0.9 + 0.1 * left) * 2 * far
    heavy = math.sqrt(0.25 * other**2 + 0.75 * (1.8 * log3) ** 2)
    for token, expected in enumerate((light, heavy)):
        assert bounds.change(token) == pytest.approx(expected, rel=1e-9)
        assert float(bounds.each[token]) == pytest.approx(expected, rel=1e-9)
    assert bounds.largest() == (1, bounds.change(1))
    assert bounds.hull == pytest.approx(1.8 * log3 + 2 * 0.2, rel=1e-9)


def test_far_away_the_other_rows_stay_in_the_hull_by_hand():
    """D = 200 for the token that draws a tenth: both rows stay within 1.8 ln 3 + 2 D, less than rho and P^+ say."""
    layer, measure = by_masses()
    expected = 1.8 * math.log(3) + 2 * 200
    assert OneToken.of(layer, measure, Wasserstein(100.0)).change(0) == pytest.approx(expected, rel=1e-9)


def test_a_row_that_loses_what_it_looks_at_stays_in_the_hull_by_hand():
    """P = (1/10, 9/10) at (0, -3), so 5.4 and 0.6 from the mean. Token 1 goes D = 2: rho = 3.51 and P^+ = 0.985, so the
    formula has 0.6 rho + 4 P^+ = 6.05; the hull max(5.4, 0.6 + 4), in both rows."""
    layer, _ = by_masses()
    heavy = 9 * math.exp(-3) / (1 + 9 * math.exp(-3))
    points, masses = torch.tensor([[[0.0], [-3.0]], [[1 - heavy], [heavy]]], dtype=torch.float64)
    budget = Wasserstein(2 * math.sqrt(heavy))
    found = OneToken.of(layer, TokenMeasure.weighted(points, masses[:, 0]), budget)
    assert found.change(1) == pytest.approx(5.4, rel=1e-9)


def stated(layer: AttentionLayer, measure: TokenMeasure, radius: float, error: Rounding) -> tuple[list[float], float]:
    """docs/proofs/local.md#one-token entry by entry, slopes from torch; for every token, and the hull."""
    at, values = layer.linearize(measure), layer.output @ layer.value[layer.head_groups]
    p, lengths = at.attention(), norm_upper(values)
    points, present = measure.points @ values.mT, tokens_of(measure)
    means = p @ points
    part = torch.expm1(2 * error.logit)

    def slope(row: int, token: int) -> torch.Tensor:
        def logits(point: torch.Tensor) -> torch.Tensor:
            moved = measure.points.clone()
            moved[token] = point
            projections = layer.linearize(measure.with_points(moved)).projections
            return layer.scale * (projections.q[:, row] * projections.k[:, token]).sum(-1)

        return torch.autograd.functional.jacobian(logits, measure.points[token]).norm(dim=-1)

    def away(row: int, token: int) -> torch.Tensor:
        return (points[:, token] - means[:, row]).norm(dim=-1) + 2 * error.value

    def farthest(row: int) -> torch.Tensor:
        seen = [away(row, token) for token in present if bool((p[:, row, token] > 0).all())]
        return torch.stack(seen).amax(0) * (1 + part)

    def row_change(row: int, token: int) -> float:
        reach, distance = radius / measure.masses[token].sqrt(), away(row, token) + part * farthest(row)
        hull = torch.maximum(farthest(row), distance + lengths * reach)
        if row == token:
            return float(hull.sum())
        weight = (p[:, row, token] * (1 + part)).clamp_max(1.0)
        raised = torch.expm1(torch.stack((-torch.ones_like(part), torch.ones_like(part))) * turn(row, token, reach))
        rho = (weight * raised / (1 + weight * raised)).abs().amax(0)
        after = weight * (1 + raised[1]) / (1 + weight * raised[1])
        return float(torch.minimum(rho * distance + after * lengths * reach, hull).sum())

    def turn(row: int, token: int, reach: torch.Tensor) -> torch.Tensor:
        return (slope(row, token) + error.key_slope) * reach

    def change(token: int) -> float:
        rows = [row for row in present if bool((p[:, row, token] > 0).all())]
        return math.sqrt(sum(float(measure.masses[row]) * row_change(row, token) ** 2 for row in rows))

    farther = max(radius / math.sqrt(float(measure.masses[token])) for token in present)
    hull = [float(measure.masses[row]) * float((farthest(row) + lengths * farther).sum()) ** 2 for row in present]
    return [change(token) for token in present], math.sqrt(sum(hull))


@pytest.mark.parametrize("case", KNOWN[::3], ids=str)
@pytest.mark.parametrize("lost", [0.0, 0.1])
def test_it_is_what_the_proof_states_entry_by_entry(monkeypatch, case: Case, lost: float):
    """With arithmetic that loses nothing, and with one that loses a tenth of everything."""
    layer, measure = random_layer(case, generator(0), scale=1.0), random_measure(case, generator(1)).sample(0)
    error = Rounding(*lost * torch.tensor([[0.5, 0.7], [1.0, 1.1], [0.0, 0.0], [0.9, 0.6]], dtype=torch.float64))
    monkeypatch.setattr(one_token, "rounding_at", lambda *_: error)
    bounds = OneToken.of(layer, measure, Wasserstein(0.02))
    expected, hull = stated(layer, measure, 0.02, error)
    assert bounds.hull == pytest.approx(hull, rel=1e-6)
    for token, most in zip(tokens_of(measure), expected, strict=True):
        assert bounds.change(token) == pytest.approx(most, rel=1e-6)
    assert bounds.largest()[1] == pytest.approx(max(expected), rel=1e-6)


def test_of_keys_with_one_coordinate_the_quick_bound_is_the_other_one(monkeypatch):
    """|W_K| |q| is |W_K^T q|; both allow for what is lost, here a tenth."""
    layer, measure = by_masses()
    tenth = torch.full((1,), 0.1, dtype=torch.float64)
    error = Rounding(tenth, tenth, tenth, tenth)
    monkeypatch.setattr(one_token, "rounding_at", lambda *_: error)
    bounds = OneToken.of(layer, measure, Wasserstein(0.02))
    for token, expected in enumerate(stated(layer, measure, 0.02, error)[0]):
        assert float(bounds.each[token]) == pytest.approx(expected, rel=1e-9)
        assert bounds.change(token) == pytest.approx(expected, rel=1e-9)


def test_a_rotation_that_only_stretches_makes_queries_and_keys_longer():
    """Everybody at position 0: nothing turns, and both are multiplied by 3. In the quick bounds too."""
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1)).sample(0)
    measure = replace(measure, positions=torch.zeros_like(measure.positions))
    stretched = replace(layer, rotary=Rotary(torch.tensor([1.0, 0.3]), scaling=3.0))
    names = ("query", "query_bias", "key", "key_bias")
    longer = replace(layer, **{name: 3 * getattr(layer, name) for name in names})
    here, there = (OneToken.of(each, measure, Wasserstein(0.02)) for each in (stretched, longer))
    assert torch.allclose(here.each, there.each, rtol=1e-6)
    assert here.change(1) == pytest.approx(there.change(1), rel=1e-9)


def test_a_weight_too_small_for_a_float_can_still_rise():
    """Keys 0 and -750 draw 1 and e^-750, which is no number; a way of 740 makes it e^-10."""
    one = torch.ones(1, 1, dtype=torch.float64)
    layer = AttentionLayer.single_head(0 * one, one, bias=one[0])
    measure = TokenMeasure.uniform(torch.tensor([[0.0], [-750.0]], dtype=torch.float64))
    budget = Wasserstein(740 / math.sqrt(2))
    p = layer.linearize(measure).attention()
    bounds = OneToken.of(layer, measure, budget)
    row = bounds._rows(p[..., 1:], torch.ones(2, 1, dtype=torch.bool), torch.ones(1, 2, 1), slice(0, 2), slice(1, 2))
    assert float(p[0, 0, 1]) == 0.0
    assert float(row[0, 0]) >= 10 * math.exp(-10)


def test_where_the_values_agree_the_distance_is_what_squares_may_have_lost():
    """Values (1, 1), means 1: 1 + 1 - 2 = 0 errs by (1 + 10) units of (1 + 1)^2."""
    layer, measure = scalars([1.0, 1.0])
    bounds = OneToken.of(layer, measure, Wasserstein(1e-12))
    expected = math.sqrt(11 * 4 * UNIT) + 2 * float(bounds.error.value)
    assert bounds.hull == pytest.approx(expected, rel=1e-4)


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


@pytest.mark.parametrize("size", [1e200, 1e-40])
def test_sizes_that_floats_cannot_speak_of_are_not_a_number(size: float):
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1)).sample(0)
    bounds = OneToken.of(layer, measure.with_points(measure.points * size), Wasserstein(0.1))
    assert math.isnan(bounds.largest()[1])
    assert math.isnan(bounds.change(0))

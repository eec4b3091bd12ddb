"""Derivatives from the third on, on a ball: every one met is below its bound, and each inequality by itself."""

import math
from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from robust_attn.bounds.ball import higher_norms
from robust_attn.bounds.higher import RowSlopes, Shares, higher_rows, key_weights, row_slopes, shares
from robust_attn.bounds.interval import Inflated, ball_of, centred_shift, inflated
from robust_attn.bounds.rows import row_blocks
from robust_attn.budget import BUDGETS, Frobenius, Wasserstein
from robust_attn.spectral.norms import head_norms
from tests.bounds.test_curvature import UNIT, one_row, random_row
from tests.cases import (
    ADDED_CASES,
    MORE_CASES,
    Case,
    generator,
    one_sample,
    random_layer,
    random_measure,
    scalar_layer,
    scalar_measure,
)
from tests.selection import at_first

CASE = st.sampled_from(MORE_CASES + ADDED_CASES)


def derivative(layer, measure, points: Tensor, direction: Tensor, order: int) -> Tensor:
    def along(t: Tensor) -> Tensor:
        return layer(measure.with_points(points + t * direction))

    def slope(function):
        return lambda t: torch.func.jvp(function, (t,), (torch.ones_like(t),))[1]

    for _ in range(order):
        along = slope(along)
    return along(torch.zeros((), dtype=torch.float64))


def size(weights: Tensor, field: Tensor) -> Tensor:
    return (weights * field.square().sum(-1)).sum(-1).sqrt()


def bound_of(layer, measure, budget, *orders: int) -> tuple[Tensor, ...]:
    (found,) = higher_norms(layer, head_norms(layer), measure, (budget,), orders)
    return found


@settings(max_examples=20)
@given(
    seed=st.integers(0, 10**6),
    case=CASE,
    kind=st.sampled_from(sorted(BUDGETS)),
    log_radius=st.floats(-4, 0.5),
    order=st.sampled_from((3, 3, 4)),
)
def test_no_derivative_on_the_ball_exceeds_its_bound(seed, case, kind, log_radius, order):
    budget = BUDGETS[kind](10**log_radius)
    layer, measure = random_layer(case, generator(seed)), random_measure(case, generator(seed + 1))
    inside = measure.points + 0.9 * budget.sample(measure, generator(seed + 2))
    along = budget.project(3 * budget.sample(measure, generator(seed + 3)), measure)
    (bound,) = bound_of(layer, measure, budget, order)
    found = derivative(layer, measure, inside, along, order)
    assert (size(budget.weights(measure), found) <= bound * (1 + 1e-9)).all()


@pytest.mark.parametrize("order", [5, 6])
@pytest.mark.parametrize("case", at_first((MORE_CASES + ADDED_CASES)[::3], 1), ids=str)
def test_no_derivative_of_a_high_order_exceeds_its_bound(case, order):
    """By nested forward mode, which takes long: few of them."""
    budget, seed = Wasserstein(0.2), 3
    layer, measure = random_layer(case, generator(seed), scale=0.8), random_measure(case, generator(seed + 1))
    along = budget.project(3 * budget.sample(measure, generator(seed + 3)), measure)
    found = derivative(layer, measure, measure.points, along, order)
    (bound,) = bound_of(layer, measure, budget, order)
    assert (size(budget.weights(measure), found) <= bound).all()


@pytest.mark.parametrize("seed", at_first(range(4), 1))
@pytest.mark.parametrize("order", [3, 4])
def test_ascent_stays_below_it(seed, order):
    """On the derivative at the tokens, along displacements of the ball."""
    case, budget = replace(MORE_CASES[3 * seed], masses="unequal"), Wasserstein(0.3)
    layer, measure = (
        random_layer(case, generator(seed), scale=0.9),
        random_measure(case, generator(seed + 1), samples=1),
    )
    (bound,) = bound_of(layer, measure, budget, order)
    weights, along = budget.weights(measure), budget.sample(measure, generator(seed + 2))
    for _ in range(15):
        along = budget.project(1e3 * along, measure).requires_grad_(True)
        value = size(weights, derivative(layer, measure, measure.points, along, order)).sum()
        (along,) = torch.autograd.grad(value, along)
    assert 0 < float(value.detach()) <= float(bound)


@pytest.mark.parametrize("order", [3, 4, 5, 6])
def test_it_grows_with_the_values_in_proportion_and_not_with_the_scale_of_the_tokens(order):
    """V -> 3 V: three times. X -> 2 X, radius -> 2 radius, A -> A / 4: logits stay, values double."""
    g = generator(0)
    layer, measure = random_layer(Case(bias=False), g), random_measure(Case(), g)
    (one,) = bound_of(layer, measure, Wasserstein(0.1), order)
    (three,) = bound_of(replace(layer, output=3 * layer.output), measure, Wasserstein(0.1), order)
    weaker, wider = replace(layer, query=layer.query / 4), measure.with_points(2 * measure.points)
    (same,) = bound_of(weaker, wider, Wasserstein(0.2), order)
    assert three.tolist() == pytest.approx((3 * one).tolist(), rel=1e-9)
    assert same.tolist() == pytest.approx((2 * one).tolist(), rel=1e-9)


def test_nothing_bends_without_interaction():
    layer, measure = scalar_layer(0.0, 3.0), one_sample(scalar_measure([0.0, 1.0, 4.0]))
    assert [float(bound) for bound in bound_of(layer, measure, Frobenius(0.5), 3, 4, 5, 6)] == [0.0] * 4


@pytest.mark.parametrize("order", [3, 4, 5])
def test_a_logistic_function_is_bounded_closely(order):
    """One token moves, far from another that stays by its weight: the derivatives of P_01 of a row that looks at both.

    x = (0, 1), no query but a bias k: row i is P(k d) with P = 1 / (1 + e^-(k (1 + d_1 - d_0))) and the values that
    move; the largest derivative that autograd finds along either token is at least a fiftieth of the bound.
    """
    layer, measure = scalar_layer(0.0), one_sample(scalar_measure([0.0, 1.0]))
    layer, budget = replace(layer, query_bias=torch.full_like(layer.query_bias, 1.0)), Frobenius(1e-3)
    found = max(
        float(size(budget.weights(measure), derivative(layer, measure, measure.points, 1e-3 * along, order)))
        for along in torch.tensor([[[[1.0], [0.0]]], [[[0.0], [1.0]]], [[[0.7], [-0.7]]]]).double()
    )
    (bound,) = bound_of(layer, measure, budget, order)
    assert found <= float(bound) <= 100 * found


def row_with(**fields_):
    """P = (1/2, 1/2), values 0 and 1: distances 1/2, deviation 1/2."""
    values = torch.tensor([[0.0], [1.0]]).double()
    return replace(one_row(torch.tensor([0.5, 0.5]).double(), values, values), **fields_)


def test_row_slopes_by_hand():
    """Slopes 0.2 and 0.4 about their mean, nu = 0.1: the mean moves by at most 0.1 (0.1 + 0) = 0.01, sigma 0.21, 0.41.

    b is at most 2 * 3 * 0.5 * 0.5 from its mean where |A| = 3 and tokens go 0.5.
    """
    layer, measure = scalar_layer(3.0), one_sample(scalar_measure([0.0, 1.0]))
    (data,) = row_blocks(layer, measure)
    row = row_with(
        logit_slope=torch.tensor([0.2, 0.4]).double()[None, None, None],
        logit_deviation=torch.full((1, 1, 1), 0.1).double(),
    )
    twice = Inflated(**{each.name: getattr(row, each.name).repeat_interleave(2, dim=2) for each in fields(row)})
    data, ball = replace(data, logit_error=torch.zeros_like(data.logit_error)), ball_of(measure, Frobenius(0.5))
    found = row_slopes(head_norms(layer), ball, data, twice)
    assert found.sigma[0, 0, 0].tolist() == pytest.approx([0.21, 0.41])
    assert (found.steepest[0, 0, 0].item(), found.nu[0, 0, 0].item()) == pytest.approx((0.41, 0.1))
    assert found.bilinear[0, 0, 0].item() == pytest.approx(1.5)
    assert found.blocks((3, 2))[0, 0, 0].item() == pytest.approx(0.41 * 0.01 * 0.01)


def some_slopes(sigma=(0.3, 0.5), nu=0.2, bilinear=0.1) -> RowSlopes:
    numbers = [torch.full((1, 1, 1), each).double() for each in (max(sigma), nu, bilinear)]
    return RowSlopes(torch.tensor(sigma).double()[None, None, None], *numbers)


def test_shares_of_the_third_order_by_hand():
    """far 0.3 / 2 and 0.5 / 2, mean 0.2, root mean square (0.15^2 + 0.25^2)^{1/2} / sqrt(2) = s; pull 3 nu / 2.

    3 E[v y^2] is 2 * 1.5 sigma, 6 E[u b y] is 6 s, 6 Cov(v, b) is 6.
    """
    found, s = shares(3, row_with(), some_slopes()), math.sqrt((0.15**2 + 0.25**2) / 2)
    assert found.far.flatten().tolist() == pytest.approx([0.15, 0.25])
    assert (found.mean.item(), found.spread.item()) == pytest.approx((0.2, s))
    assert (found.pull.item(), found.strength.item()) == pytest.approx((0.3, 0.75))
    assert (found.bilinear.item(), found.moving.item()) == pytest.approx((6 * s, 6.0))


def test_shares_of_the_fourth_order_by_hand():
    """far 0.09 / 2 and 0.25 / 2, root mean square t. With s of the third order, sigma = 0.5, nu = 0.2:

    pull: 4 E uy E y^3 and 6 E uy^2 E y^2, so (4 * 0.5 * 0.5 + 6 s) 0.2. Strength: 4/2 max(0.25, 3 * 0.04).
    12 kappa(u, b, y^2): 12 (t + 0.5 * 0.04 + 2 * 0.5 * 0.04); 12 kappa(u, b, b): 12 * 0.5 * 0.1.
    24 kappa(v, b, y): 24 * 0.5.
    """
    found = shares(4, row_with(), some_slopes())
    s, t = math.sqrt((0.15**2 + 0.25**2) / 2), math.sqrt((0.045**2 + 0.125**2) / 2)
    assert found.far.flatten().tolist() == pytest.approx([0.045, 0.125])
    assert (found.mean.item(), found.spread.item()) == pytest.approx((0.085, t))
    assert found.pull.item() == pytest.approx((4 * 0.5 * 0.5 + 6 * s) * 0.2)
    assert found.strength.item() == pytest.approx(2 * 0.25)
    assert found.bilinear.item() == pytest.approx(12 * (t + 0.02 + 0.04) + 12 * 0.5 * 0.1)
    assert found.moving.item() == pytest.approx(12.0)


def test_shares_of_the_fifth_order_by_hand():
    """sigma = 0.5, nu = 0.2, spreads 1/2, s, t of the orders before.

    pull: 5 E uy E y^4, 10 E uy^2 E y^3, 10 E uy^3 E y^2 and 2 * 15 E uy E y^2 E y^2.
    5 kappa(v, y^4): max(0.25, 6 * 0.04) * 0.5 + 4 * 0.5 * 0.04, the other part of which is E vy E y^3.
    60 kappa(v, b, y^2): 0.25 + 0.04 + 2 * 0.04; 60 kappa(v, b, b): 5 * 4!/2! of them, 0.1 each.
    """
    found = shares(5, row_with(), some_slopes())
    s, t = math.sqrt((0.15**2 + 0.25**2) / 2), math.sqrt((0.045**2 + 0.125**2) / 2)
    pull = 5 * 0.5 * 0.25 + 10 * s * 0.5 + 10 * t + 30 * 0.5 * 0.04
    assert found.pull.item() == pytest.approx(0.2 * pull)
    assert found.strength.item() == pytest.approx(2.5 * (0.25 * 0.5 + 4 * 0.5 * 0.04))
    assert found.moving.item() == pytest.approx(60 * (0.25 + 0.04 + 0.08) + 60 * 0.1)


def test_key_weights_by_hand():
    """P = (1/2, 1/2), far (1, 3), mean 2, spread sqrt(5), pull 2; variance weights 1/2 each.

    Split 1/2 (1 + 2 + 2 sqrt(5)) and more; whole 1/2 * 3: the second is smaller. With the pull 3/2 + 1 = 5/2.
    """
    values = torch.tensor([[0.0], [1.0]]).double()
    at = one_row(torch.tensor([0.5, 0.5]).double(), values, values)
    found = key_weights(at, known_shares([1.0, 3.0], 2.0, math.sqrt(5), 2.0), UNIT)
    assert found.flatten().tolist() == pytest.approx([2.5, 2.5])


def known_shares(far, mean, spread, pull) -> Shares:
    numbers = [torch.full((1, 1, 1), float(each)).double() for each in (mean, spread, pull, 0.0, 0.0, 0.0)]
    return Shares(torch.as_tensor(far).double()[None, None, None], *numbers)


def test_the_split_form_of_key_weights_is_taken_where_a_far_atom_is_light():
    """P = 0.01 at far 1 and 0.03 at far 0, 33 times: mean 0.01, spread 0.1; whole 0.03.

    Split: 0.01 (1 + 0.2 + 0.01) and 0.03 * 0.21. By Young's inequality, t = 1/2: 0.01 (1.5 + 0.03) and more than that.
    With a spread of 0.7 the latter is smaller: t = 1/2, 0.01 * 1.53 and 0.03 * 0.03.
    """
    p, values = torch.tensor([0.01] + [0.03] * 33).double(), torch.tensor([[1.0]] + [[0.0]] * 33).double()
    for spread, expected in ((0.1, [0.0121] + [0.0063] * 33), (0.7, [0.0153] + [0.0009] * 33)):
        found = key_weights(one_row(p, values, values), known_shares(values.flatten(), 0.01, spread, 0.0), UNIT)
        assert found.flatten().tolist() == pytest.approx(expected)


@given(seed=st.integers(0, 10**6), length=st.integers(1, 7), sharpness=st.floats(0, 8))
def test_key_weights_dominate(seed, length, sharpness):
    """E[(far + pull)(c - c_bar)^2] <= sum_j z_j c_j^2 for any c."""
    p, values, slopes = random_row(seed, length, sharpness)
    far = values[:, 0].abs()
    pull = 0.3
    z = key_weights(one_row(p, values, slopes), known_shares(far, p @ far, (p @ far**2).sqrt(), pull), UNIT).flatten()
    c = torch.randn(20, length, generator=generator(seed + 1), dtype=torch.float64)
    moments = ((far + pull) * p * (c - (c @ p)[:, None]) ** 2).sum(-1)
    assert (moments <= (z * c**2).sum(-1) * (1 + 1e-9) + 1e-15).all()


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), case=CASE, kind=st.sampled_from(sorted(BUDGETS)), log_radius=st.floats(-3, 0.5))
def test_slopes_of_logits_stay_as_near_to_their_mean_as_is_said(seed, case, kind, log_radius):
    """s' at a point of the ball along a displacement of it, by autograd: from its mean at the tokens, its spread."""
    budget, case = BUDGETS[kind](10**log_radius), replace(case, sinks=False)
    layer, measure = random_layer(case, generator(seed)), random_measure(case, generator(seed + 1), samples=1)
    (data,) = row_blocks(layer, measure)
    at = inflated(head_norms(layer), ball_of(measure, budget), data)
    inside, along = (budget.project(3 * budget.sample(measure, generator(seed + k)), measure) for k in (2, 3))
    here, slopes = torch.func.jvp(lambda p: _logits(layer, measure, p), (measure.points + inside,), (along,))
    weights = torch.where(data.seen, here, -torch.inf).softmax(-1).nan_to_num(0.0)
    before = torch.where(data.seen, data.log_p.exp(), 0.0)
    slopes = torch.where(data.seen, slopes, 0.0)
    present = measure.present[0]
    away = (slopes - (before * slopes).sum(-1, keepdim=True)).abs()
    assert (torch.where(data.seen, away - at.logit_slope * (1 + 1e-9), 0.0)[..., present, :] <= 1e-12).all()
    spread = ((weights * slopes**2).sum(-1) - (weights * slopes).sum(-1) ** 2).clamp_min(0.0).sqrt()
    assert (spread[..., present] <= at.logit_deviation[..., present] * (1 + 1e-9) + 1e-7).all()
    ceiling = torch.where(data.seen, weights, 0.0) <= at.ceiling * (1 + 1e-9)
    assert ceiling[..., present, :].all()


def _logits(layer, measure, points: Tensor) -> Tensor:
    from robust_attn.attention.jacobian import project, weighted_logits

    moved = measure.with_points(points)
    found = weighted_logits(layer, moved, project(layer, moved), slice(0, measure.length))
    return torch.where(torch.isinf(found), 0.0, found)


def test_a_centred_shift_by_hand():
    """x = (0, 1), A = log 3, row 1: P = (1/4, 3/4), g = log 3 =: k, y = (0, k) with mean 3k/4; radius 1, Frobenius.

    j = 0: x_0 gets (1 - 1/4) k, x_1 gets 3k/4 + 3k/4: together (9/16 + 9/4)^{1/2} k. j = 1: x_0 gets k/4, x_1 gets
    k/4 + k/4: (1/16 + 1/4)^{1/2} k. Bilinear: k (1/2 + mean) and k (1 + mean), mean = min(1, sqrt(3)/2).
    """
    layer, measure, k = scalar_layer(math.log(3)), one_sample(scalar_measure([0.0, 1.0])), math.log(3)
    (data,) = row_blocks(layer, measure)
    found = centred_shift(head_norms(layer), ball_of(measure, Frobenius(1.0)), data, data.log_p.exp())
    assert found.first[0, 0, 1].tolist() == pytest.approx([k * math.sqrt(45) / 4, k * math.sqrt(5) / 4])
    mean = math.sqrt(3) / 2
    assert found.second[0, 0, 1].tolist() == pytest.approx([k * (0.5 + mean), k * (1 + mean)])
    at = inflated(head_norms(layer), ball_of(measure, Frobenius(1.0)), data)
    slopes = [k * math.sqrt(45) / 4 + 2 * k * (0.5 + mean), k * math.sqrt(5) / 4 + 2 * k * (1 + mean)]
    assert at.logit_slope[0, 0, 1].tolist() == pytest.approx(slopes)


def test_rows_of_two_tokens_by_hand():
    """x = (0, 1), A = 0 but for a bias of the query, 0.1: logits 0 and 0.1 in both rows, slopes of the query zero.

    P = (1, e^0.1) / (1 + e^0.1), |A| = 0, Frobenius 1. Slopes about their mean: of logit j, 1 - P_j on either token, so
    0.1 sqrt(2) (1 - P_j). Nothing is mixed, nothing is of the query. Moving values alone: 3 sigma g |V| r.
    """
    layer, measure = scalar_layer(0.0), one_sample(scalar_measure([0.0, 1.0]))
    layer = replace(layer, query_bias=torch.full_like(layer.query_bias, 0.1))
    (data,) = row_blocks(layer, measure)
    norms, ball = head_norms(layer), ball_of(measure, Frobenius(1.0))
    at, (rows,) = inflated(norms, ball, data), higher_rows(norms, ball, data, (3,))
    heavier = 1 / (1 + math.exp(-0.1))
    expected = [0.1 * math.sqrt(2) * share for share in (heavier, 1 - heavier)]
    assert at.logit_slope.flatten().tolist() == pytest.approx(2 * expected)
    assert float(rows.own.abs().max()) == 0.0
    assert float(rows.cross_rows.abs().max()) == 0.0
    slopes = row_slopes(norms, ball, data, at)
    share = shares(3, at, slopes)
    moments = key_weights(at, share, ball.inverse[..., None, None, :])[0, 0] * 0.1**2
    expected = moments + 3 * slopes.steepest[0, 0][:, None] * 0.1 * at.variance[0, 0]
    assert rows.pairs.flatten().tolist() == pytest.approx(expected.flatten().tolist())


def test_mixed_rows_of_two_tokens_by_hand():
    """x = (0, 1), A = k = log 3, V = 1, Frobenius 0.1: each term from what is known on the ball, one head.

    Mixed: 3 sigma sd_y |V|, 6 spread |A| and the moments, each times the root of the largest variance weight (that
    of the moments with the slope of the keys, or twice the root of both moments). Pairs: the moments, 3 sigma |V| g r,
    and 6 r_i |V| |A| r.
    """
    layer, measure, k = scalar_layer(math.log(3)), one_sample(scalar_measure([0.0, 1.0])), math.log(3)
    (data,) = row_blocks(layer, measure)
    norms, ball = head_norms(layer), ball_of(measure, Frobenius(0.1))
    at, (rows,) = inflated(norms, ball, data), higher_rows(norms, ball, data, (3,))
    slopes = row_slopes(norms, ball, data, at)
    share = shares(3, at, slopes)
    sigma, spread, sd_y, pull = (
        field[0, 0] for field in (slopes.steepest, share.spread, at.slope_deviation, share.pull)
    )
    far, b, U, r, g = (field[0, 0] for field in (share.far, at.slope_distance, at.ceiling, at.variance, at.key_slope))
    moments = key_weights(at, share, ball.inverse[..., None, None, :])[0, 0] * g**2
    own = torch.minimum((U * far * b**2).sum(-1), far.amax(-1) * sd_y**2) + pull * sd_y**2
    mixed = torch.minimum((U * far**2 * b**2).sum(-1).sqrt(), far.amax(-1) * sd_y) + pull * sd_y
    third = torch.minimum(2 * mixed * (r * g**2).amax(-1).sqrt(), 2 * own.sqrt() * moments.amax(-1).sqrt())
    cross = (3 * sigma * sd_y + 6 * spread * k) * r.amax(-1).sqrt() + third
    assert rows.own[0].tolist() == pytest.approx(own.tolist(), rel=1e-6)
    assert rows.cross_rows[0].tolist() == pytest.approx(cross.tolist(), rel=1e-6)
    pairs = moments + 3 * sigma[:, None] * g.amax(-1, keepdim=True) * r + 6 * 0.1 * k * r
    assert rows.pairs.flatten().tolist() == pytest.approx(pairs.flatten().tolist(), rel=1e-6)

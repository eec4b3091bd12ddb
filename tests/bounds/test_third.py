"""Third derivatives on a ball: every one met is below its bound, and each inequality by itself."""

import math
from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from robust_attn.bounds.ball import third_norms
from robust_attn.bounds.interval import Inflated, ball_of, centred_shift, inflated
from robust_attn.bounds.rows import row_blocks
from robust_attn.bounds.third import Shares, key_weights, shares, third_rows
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


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), case=CASE, kind=st.sampled_from(sorted(BUDGETS)), log_radius=st.floats(-4, 0.5))
def test_no_third_derivative_on_the_ball_exceeds_its_bound(seed, case, kind, log_radius):
    budget = BUDGETS[kind](10**log_radius)
    layer, measure = random_layer(case, generator(seed)), random_measure(case, generator(seed + 1))
    (bound,) = third_norms(layer, head_norms(layer), measure, (budget,))
    inside = measure.points + 0.9 * budget.sample(measure, generator(seed + 2))
    along = budget.project(3 * budget.sample(measure, generator(seed + 3)), measure)
    third = derivative(layer, measure, inside, along, 3)
    assert (size(budget.weights(measure), third) <= bound * (1 + 1e-9)).all()


@pytest.mark.parametrize("seed", at_first(range(4), 1))
def test_ascent_stays_below_it(seed):
    """On the third derivative at the tokens, along displacements of the ball."""
    case, budget = replace(MORE_CASES[3 * seed], masses="unequal"), Wasserstein(0.3)
    layer, measure = (
        random_layer(case, generator(seed), scale=0.9),
        random_measure(case, generator(seed + 1), samples=1),
    )
    (bound,) = third_norms(layer, head_norms(layer), measure, (budget,))
    weights, along = budget.weights(measure), budget.sample(measure, generator(seed + 2))
    for _ in range(15):
        along = budget.project(1e3 * along, measure).requires_grad_(True)
        value = size(weights, derivative(layer, measure, measure.points, along, 3)).sum()
        (along,) = torch.autograd.grad(value, along)
    assert 0 < float(value.detach()) <= float(bound)


def test_it_grows_with_the_values_in_proportion_and_not_with_the_scale_of_the_tokens():
    """V -> 3 V: three times. X -> 2 X, radius -> 2 radius, A -> A / 4: logits stay, values double."""
    g = generator(0)
    layer, measure = random_layer(Case(bias=False), g), random_measure(Case(), g)
    (one,) = third_norms(layer, head_norms(layer), measure, (Wasserstein(0.1),))
    louder = replace(layer, output=3 * layer.output)
    (three,) = third_norms(louder, head_norms(louder), measure, (Wasserstein(0.1),))
    weaker, wider = replace(layer, query=layer.query / 4), measure.with_points(2 * measure.points)
    (same,) = third_norms(weaker, head_norms(weaker), wider, (Wasserstein(0.2),))
    assert three.tolist() == pytest.approx((3 * one).tolist(), rel=1e-9)
    assert same.tolist() == pytest.approx((2 * one).tolist(), rel=1e-9)


def test_nothing_bends_without_interaction():
    layer, measure = scalar_layer(0.0, 3.0), one_sample(scalar_measure([0.0, 1.0, 4.0]))
    (bound,) = third_norms(layer, head_norms(layer), measure, (Frobenius(0.5),))
    assert float(bound) == 0.0


def test_shares_by_hand():
    """P = (1/2, 1/2), values 0 and 1: distances 1/2, deviation 1/2. Slopes 0.2 and 0.4 about their mean, nu = 0.1.

    The mean moves by at most 0.1 (0.1 + 0) = 0.01: sigma 0.21 and 0.41, far 0.105 and 0.205, its root mean square
    (0.105^2 + 0.205^2)^{1/2} / sqrt(2) = 0.16286 (0.41 / 2 would be more), pull 3 * 0.1 / 2 = 0.15.
    """
    layer, measure = scalar_layer(1.0), one_sample(scalar_measure([0.0, 1.0]))
    (data,) = row_blocks(layer, measure)
    values = torch.tensor([[0.0], [1.0]]).double()
    row = replace(
        one_row(torch.tensor([0.5, 0.5]).double(), values, values),
        logit_slope=torch.tensor([0.2, 0.4]).double()[None, None, None],
        logit_deviation=torch.full((1, 1, 1), 0.1).double(),
    )
    twice = {each.name: getattr(row, each.name).repeat_interleave(2, dim=2) for each in fields(row)}
    found = shares(replace(data, logit_error=torch.zeros_like(data.logit_error)), Inflated(**twice))
    assert found.far[0, 0, 0].tolist() == pytest.approx([0.105, 0.205])
    assert found.spread[0, 0, 0].item() == pytest.approx(math.sqrt((0.105**2 + 0.205**2) / 2))
    assert (found.steepest[0, 0, 0].item(), found.pull[0, 0, 0].item()) == pytest.approx((0.41, 0.15))


def test_key_weights_by_hand():
    """P = (1/2, 1/2), far (1, 3), spread sqrt(5), pull 2; variance weights 1/2 each.

    Split 1/2 (1 + 3 sqrt(5)) and more; whole 1/2 * 3: the second is smaller. With the pull 3/2 + 1 = 5/2.
    """
    values = torch.tensor([[0.0], [1.0]]).double()
    at = one_row(torch.tensor([0.5, 0.5]).double(), values, values)
    far, spread = torch.tensor([1.0, 3.0]).double()[None, None, None], torch.full((1, 1, 1), math.sqrt(5)).double()
    found = key_weights(at, Shares(far, spread, 3 * torch.ones(1, 1, 1), torch.full((1, 1, 1), 2.0).double()), UNIT)
    assert found.flatten().tolist() == pytest.approx([2.5, 2.5])


def test_the_split_form_of_key_weights_is_taken_where_a_far_atom_is_light():
    """P = 0.01 at far 1 and 0.03 at far 0, 33 times: spread 0.1; split 0.01 (1 + 0.3) and 0.03 * 0.3, whole 0.03."""
    p, values = torch.tensor([0.01] + [0.03] * 33).double(), torch.tensor([[1.0]] + [[0.0]] * 33).double()
    far = values.flatten()[None, None, None]
    none = torch.zeros(1, 1, 1).double()
    found = key_weights(one_row(p, values, values), Shares(far, none + 0.1, none + 1, none), UNIT)
    assert found.flatten().tolist() == pytest.approx([0.013] + [0.009] * 33)


@given(seed=st.integers(0, 10**6), length=st.integers(1, 7), sharpness=st.floats(0, 8))
def test_key_weights_dominate(seed, length, sharpness):
    """E[(far + pull)(c - c_bar)^2] <= sum_j z_j c_j^2 for any c."""
    p, values, slopes = random_row(seed, length, sharpness)
    far = values[:, 0].abs()
    spread, pull = (p @ far**2).sqrt(), 0.3
    known = Shares(*(torch.as_tensor(each)[None, None, None].double() for each in (far, spread, far.max(), pull)))
    z = key_weights(one_row(p, values, slopes), known, UNIT).flatten()
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
    at, rows = inflated(norms, ball, data), third_rows(norms, ball, data)
    heavier = 1 / (1 + math.exp(-0.1))
    expected = [0.1 * math.sqrt(2) * share for share in (heavier, 1 - heavier)]
    assert at.logit_slope.flatten().tolist() == pytest.approx(2 * expected)
    assert float(rows.own.abs().max()) == 0.0
    assert float(rows.cross_rows.abs().max()) == 0.0
    share = shares(data, at)
    moments = key_weights(at, share, ball.inverse[..., None, None, :])[0, 0] * 0.1**2
    expected = moments + 3 * share.steepest[0, 0][:, None] * 0.1 * at.variance[0, 0]
    assert rows.pairs.flatten().tolist() == pytest.approx(expected.flatten().tolist())


def test_mixed_rows_of_two_tokens_by_hand():
    """x = (0, 1), A = k = log 3, V = 1, Frobenius 0.1: each term from what is known on the ball, one head.

    Mixed: 3 sigma sd_y |V|, 6 sigma sd_u |A| and the moments, each times the root of the largest variance weight (that
    of the moments with the slope of the keys, or twice the root of both moments). Pairs: the moments, 3 sigma |V| g r,
    and 6 r_i |V| |A| r.
    """
    layer, measure, k = scalar_layer(math.log(3)), one_sample(scalar_measure([0.0, 1.0])), math.log(3)
    (data,) = row_blocks(layer, measure)
    norms, ball = head_norms(layer), ball_of(measure, Frobenius(0.1))
    at, rows = inflated(norms, ball, data), third_rows(norms, ball, data)
    share = shares(data, at)
    sigma, sd_u, sd_y, pull = (
        field[0, 0] for field in (share.steepest, at.value_deviation, at.slope_deviation, share.pull)
    )
    far, b, U, r, g = (field[0, 0] for field in (share.far, at.slope_distance, at.ceiling, at.variance, at.key_slope))
    moments = key_weights(at, share, ball.inverse[..., None, None, :])[0, 0] * g**2
    own = torch.minimum((U * far * b**2).sum(-1), far.amax(-1) * sd_y**2) + pull * sd_y**2
    mixed = torch.minimum((U * far**2 * b**2).sum(-1).sqrt(), far.amax(-1) * sd_y) + pull * sd_y
    third = torch.minimum(2 * mixed * (r * g**2).amax(-1).sqrt(), 2 * own.sqrt() * moments.amax(-1).sqrt())
    cross = (3 * sigma * sd_y + 6 * sigma * sd_u * k) * r.amax(-1).sqrt() + third
    assert rows.own[0].tolist() == pytest.approx(own.tolist(), rel=1e-6)
    assert rows.cross_rows[0].tolist() == pytest.approx(cross.tolist(), rel=1e-6)
    pairs = moments + 3 * sigma[:, None] * g.amax(-1, keepdim=True) * r + 6 * 0.1 * k * r
    assert rows.pairs.flatten().tolist() == pytest.approx(pairs.flatten().tolist(), rel=1e-6)

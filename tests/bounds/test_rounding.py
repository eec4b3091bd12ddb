"""float64 against interval arithmetic at 400 bits: what is called an upper value is one, and by how little.

Formulas are compared as they are (one head) and with the derivatives they bound (several heads). "At most" means that
the two balls do not contradict it: they are some 1e-25 wide.
"""

import itertools
from dataclasses import fields

import pytest
import torch
from flint import arb, arb_mat

from robust_attn.attacks.move import Move
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.rounding import evaluation_error
from robust_attn.bounds.ball import BallNorms, ball_norms
from robust_attn.bounds.interval import softmax_interval, variance_weights
from robust_attn.budget import BUDGETS, Budget, Frobenius, PerToken, Wasserstein
from robust_attn.certificates.layer import certify
from robust_attn.spectral.matrix_norms import covariance_norm_upper, norm_upper, product_norm_upper
from robust_attn.spectral.norms import head_norms
from tests.bounds.exact import (
    along,
    derivative,
    difference,
    exact,
    length,
    norm,
    outputs,
    product,
    transposed,
    value_matrix,
    weighted_size,
)
from tests.bounds.exact_ball import exact_ball, head_of, reach_of
from tests.bounds.exact_cases import HARD, HEADS, NEAR, PLAIN, SmallCase
from tests.cases import generator, one_sample

ALL = [*PLAIN, *HARD, *NEAR, *HEADS]
RADII = (1e-9, 1e-2, 10.0)
BUDGETS_TRIED = [kind(radius) for kind in BUDGETS.values() for radius in RADII]
FEW_BUDGETS = [PerToken(1e-9), Wasserstein(1e-2), Frobenius(10.0)]
SMALLEST = 1e-300
"""Attention below this underflows: such a weight changes no sum that carries a margin of 1e-11."""


def at_most(value: arb, bound: float, *, slack: float = 0.0) -> bool:
    return not value > arb(bound) + arb(slack)


def within(value: arb, bound: float, margin: float) -> bool:
    """value <= bound <= (1 + margin) value."""
    return at_most(value, bound) and not arb(bound) > value * (1 + arb(margin))


def rows(*values: list[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


MATRICES = {
    "wide": normal(0, 2, 4),
    "tall": normal(1, 5, 3),
    "repeated values": 3 * torch.eye(3).double(),
    "rank one": torch.outer(normal(2, 4), normal(3, 3)),
    "nearly singular": rows([1.0, 1.0], [1.0, 1.0 + 1e-15]),
    "huge": 1e70 * normal(4, 3, 3),
    "tiny": 1e-70 * normal(5, 3, 3),
    "graded": normal(6, 4, 4) * torch.tensor([1.0, 1e-5, 1e-10, 1e-15]).double(),
}


@pytest.mark.parametrize("name", MATRICES)
def test_spectral_norms_are_upper_values_within_their_margins(name):
    """SVD: 1e-11, once for a matrix and for a product; Gram iteration: k^(1/128) for k x k, and 1e-11."""
    matrix = MATRICES[name]
    gram = matrix.T @ matrix
    norms = norm(exact(matrix)), norm(exact(gram)), norm(product(exact(matrix), exact(matrix.T)))
    assert within(norms[0], float(norm_upper(matrix)), 1.1e-11)
    assert within(norms[2], float(product_norm_upper(matrix, matrix.T)), 1.1e-11)
    assert within(norms[1], float(covariance_norm_upper(gram)), gram.shape[0] ** (1 / 128) * (1 + 1.1e-11) - 1)


@pytest.mark.parametrize("size", [1e-300, 1e-162, 1e160, 1e300])
def test_gram_iteration_beyond_the_range_of_squares_is_larger_but_never_less(size):
    gram = size * (MATRICES["tall"].T @ MATRICES["tall"])
    assert at_most(norm(exact(gram)), float(covariance_norm_upper(gram)))


@pytest.mark.parametrize("seed", range(4))
def test_norms_of_heads_are_upper_values(seed):
    """|V_h|, |A_h|, |W_V^h|, and the joint norms of all heads beside and on top of one another."""
    layer = SmallCase("two heads", heads=2, width=3).layer(seed)
    norms, scale = head_norms(layer), arb(layer.scale)
    V = [value_matrix(layer, head) for head in range(2)]
    A = [product(transposed(exact(layer.key[h])), exact(layer.query[h])) for h in range(2)]
    pull = [product(transposed(exact(layer.key[h])), exact(layer.query_bias[h][:, None])) for h in range(2)]
    for h in range(2):
        assert within(norm(V[h]), float(norms.value[h]), 1e-10)
        assert within(norm(exact(layer.value[h])), float(norms.inner_value[h]), 1e-10)
        assert within(scale * norm(A[h]), float(norms.interaction[h]), 1e-10)
        assert at_most(scale * norm(pull[h]), float(norms.key_slope_at_zero[h]), slack=1e-15)
    beside = norm([[*first, *second] for first, second in zip(*V, strict=True)])
    assert within(beside, norms.beside_value, 1e-10)
    assert within(beside.min(norm(V[0] + V[1])), norms.stacked_value, 1e-10)
    assert within(scale * norm(A[0] + A[1]), norms.stacked_interaction, 1e-10)


LOGARITHMS = [[-0.1, -2.4, -9.0], [-1.0986, -1.0986, -1.0987], [-1e-9, -21.0, -1e3], [0.0, -1e4, -1e4]]
SHIFTS = [[1e-12, 1e-12, 1e-12], [0.3, 0.1, 2.0], [30.0, 1.0, 0.0], [700.0, 500.0, 1e3]]


def softmax(logits: list[arb]) -> list[arb]:
    weights = [logit.exp() for logit in logits]
    return [weight / sum(weights, start=arb(0)) for weight in weights]


def corners(logits: list[float], shifts: list[float]) -> list[list[arb]]:
    """Attention at every corner of the box of logits."""
    return [
        softmax([arb(a) + sign * arb(b) for a, b, sign in zip(logits, shifts, signs, strict=True)])
        for signs in itertools.product((-1, 1), repeat=len(logits))
    ]


@pytest.mark.parametrize("shifts", SHIFTS, ids=str)
@pytest.mark.parametrize("logits", LOGARITHMS, ids=str)
def test_interval_softmax_contains_every_corner_and_no_more(logits, shifts):
    log_p, shift = rows(logits), rows(shifts)
    lower, upper, ratio = softmax_interval(log_p, shift, torch.ones(1, 3, dtype=torch.bool))
    found = corners(logits, shifts)
    for j in range(3):
        highest, lowest = _largest([p[j] for p in found]), -_largest([-p[j] for p in found])
        assert at_most(highest, max(float(upper[0, j]), SMALLEST))
        assert not arb(float(lower[0, j])) > lowest
        if lowest > SMALLEST:
            assert within(highest, float(upper[0, j]), 1e-10)
            assert within(arb(float(lower[0, j])), float(lowest), 1e-10)
        assert at_most(highest / arb(float(log_p[0, j])).exp(), float(ratio[0]))


def _largest(values: list[arb]) -> arb:
    best = values[0]
    for value in values[1:]:
        best = best.max(value)
    return best


@pytest.mark.parametrize("shifts", SHIFTS[:3], ids=str)
@pytest.mark.parametrize("logits", LOGARITHMS, ids=str)
def test_variance_weights_dominate_at_every_corner(logits, shifts):
    """diag(r) - diag(P) + P P^T has no negative principal minor."""
    seen = torch.ones(1, 3, dtype=torch.bool)
    floor, ceiling, _ = softmax_interval(rows(logits), rows(shifts), seen)
    r = [arb(max(weight, SMALLEST)) for weight in variance_weights(floor, ceiling, torch.ones_like(floor))[0].tolist()]
    for P in corners(logits, shifts):
        form = [[P[i] * P[j] + (r[i] - P[i] if i == j else 0) for j in range(3)] for i in range(3)]
        for kept in itertools.chain.from_iterable(itertools.combinations(range(3), size) for size in (1, 2, 3)):
            assert not arb_mat([[form[i][j] for j in kept] for i in kept]).det() < 0, kept


def norms_on(case: SmallCase, seed: int, budgets: list[Budget]) -> list[tuple[Budget, BallNorms]]:
    layer, measure = case.layer(seed), one_sample(case.measure(seed))
    found = ball_norms(layer, head_norms(layer), measure, budgets)
    alone = [BallNorms(**{field.name: getattr(norms, field.name)[0] for field in fields(norms)}) for norms in found]
    return list(zip(budgets, alone, strict=True))


@pytest.mark.parametrize("case", [*PLAIN, *HARD], ids=str)
def test_closed_forms_and_hull_are_those_of_interval_arithmetic(case):
    """No less, and little more: Gram iteration on 2 x 2, rounding; larger where ratios of weights overflow."""
    layer, measure, gram = case.layer(0), case.measure(0), 2 ** (1 / 128) - 1
    head = head_of(layer, measure)
    for budget, found in norms_on(case, 0, BUDGETS_TRIED):
        reach = reach_of(measure, budget)
        centre, ball = exact_ball(head, reach, centre=True), exact_ball(head, reach)
        closed_form = ball.columns.min(ball.blocks)
        assert within(centre.columns, float(found.centre), gram)
        assert within(centre.blocks, float(found.centre_blocks), gram)
        assert at_most(closed_form, float(found.closed_form))
        assert case in HARD or budget.radius > 1 or within(closed_form, float(found.closed_form), gram)
        for hull, row in zip(ball.hull_rows, found.hull_rows.tolist(), strict=True):
            assert at_most(hull, row)
            assert row <= float(hull) * (1 + 1e-8) + 1e-11


@pytest.mark.parametrize("case", NEAR, ids=str)
def test_the_hull_of_nearly_equal_tokens_is_not_missed_for_rounding(case):
    """Distances of 1e-12 between values of size 1 are known to 1e-16: the hull allows for that."""
    for seed in range(2):
        layer, measure = case.layer(seed), case.measure(seed)
        head = head_of(layer, measure)
        for budget, found in norms_on(case, seed, BUDGETS_TRIED):
            for hull, row in zip(
                exact_ball(head, reach_of(measure, budget)).hull_rows, found.hull_rows.tolist(), strict=True
            ):
                assert at_most(hull, row)


@pytest.mark.parametrize("case", ALL, ids=str)
def test_derivatives_inside_the_ball_are_below_the_closed_form_and_the_curvature(case):
    """|D_Y f| by certified singular values at X and at a random Y of the ball, and |f''(Y)[d, d]| / |d|^2."""
    layer, measure = case.layer(0), case.measure(0)
    for budget, found in norms_on(case, 0, FEW_BUDGETS):
        weights = exact(budget.weights(measure))
        slope = norm(derivative(layer, exact(measure.points), measure, weights))
        assert at_most(slope, float(found.centre))
        assert at_most(slope, float(found.centre_blocks))
        inside = exact(measure.points + 0.9 * budget.sample(measure, generator(2)))
        assert at_most(norm(derivative(layer, inside, measure, weights)), float(found.closed_form))
        direction = exact(budget.sample(measure, generator(3)))
        second = weighted_size(along(layer, inside, direction, measure, 2), weights)
        assert at_most(second / weighted_size(direction, weights) ** 2, float(found.curvature))


@pytest.mark.parametrize("case", ALL, ids=str)
def test_the_layer_errs_by_less_than_it_says(case):
    for seed in range(4):
        layer, measure = case.layer(seed), case.measure(seed)
        off = difference(exact(layer(measure)), outputs(layer, exact(measure.points), measure))
        stated = float(evaluation_error(layer, measure))
        assert all(at_most(length(row), stated) for row in off)


@pytest.mark.parametrize("case", ALL, ids=str)
def test_no_attack_exceeds_the_certificate_in_exact_arithmetic(case):
    """f(Y) - f(X) without any rounding, at the float64 points Y that ascent has found: no `rounding` is allowed for."""
    layer, measure = case.layer(0), case.measure(0)
    for budget in FEW_BUDGETS:
        attacked = Move(8)(layer, one_sample(measure), budget, generator=generator(1)).observation.measure.sample(0)
        change = exact_change(layer, measure, attacked, budget)
        for bound in certify(layer, measure, budget).bounds:
            assert not bound.certifies or at_most(change, bound.output_change), bound.name


def exact_change(layer, measure: TokenMeasure, attacked: TokenMeasure, budget: Budget) -> arb:
    """|f(Y) - f(X)| in the norm of the budget."""
    before, after = (outputs(layer, exact(points), measure) for points in (measure.points, attacked.points))
    change = difference(after, before)
    if isinstance(budget, PerToken):
        return _largest([length(row) for row in change])
    return weighted_size(change, exact(budget.weights(measure)))

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import BUDGETS, Frobenius, PerToken, TokenRadius, Wasserstein
from robust_attn.types import UserError
from tests.cases import CASES, Case, generator, random_measure

KINDS = sorted(BUDGETS)
MASSES = st.sampled_from(["uniform", "unequal", "padded", "copies"])


def test_hand_computed_norms():
    """Displacements 3 and 4 on masses 1/4 and 3/4: sqrt(9/4 + 16*3/4) = sqrt(14.25), Frobenius 5, largest 4."""
    measure = TokenMeasure.weighted(torch.zeros(2, 1).double(), torch.tensor([0.25, 0.75]).double())
    field = torch.tensor([[3.0], [4.0]]).double()
    assert float(Wasserstein(1).norm(field, measure)) == pytest.approx(math.sqrt(14.25))
    assert float(Frobenius(1).norm(field, measure)) == pytest.approx(5.0)
    assert float(PerToken(1).norm(field, measure)) == pytest.approx(4.0)


@given(kind=st.sampled_from(KINDS), masses=MASSES, seed=st.integers(0, 99), log_size=st.floats(-6, 6))
def test_projection_is_inside_and_idempotent(kind, masses, seed, log_size):
    measure = random_measure(Case(masses=masses), generator(seed))
    budget = BUDGETS[kind](0.1)
    field = 10**log_size * torch.randn(measure.points.shape, generator=generator(seed + 1), dtype=torch.float64)
    projected = budget.project(field, measure)
    assert budget.contains(projected, measure).all()
    assert torch.allclose(budget.project(projected, measure), projected, rtol=1e-12, atol=0)


@given(kind=st.sampled_from(KINDS), masses=MASSES, seed=st.integers(0, 99))
def test_steepest_beats_every_other_point_of_the_budget(kind, masses, seed):
    measure = random_measure(Case(masses=masses), generator(seed))
    budget = BUDGETS[kind](0.1)
    gradient = torch.randn(measure.points.shape, generator=generator(seed + 1), dtype=torch.float64)
    best = budget.steepest(gradient, measure)
    assert budget.contains(best, measure).all()
    for trial in range(5):
        other = budget.sample(measure, generator(trial))
        assert ((best * gradient).sum((-1, -2)) >= (other * gradient).sum((-1, -2)) - 1e-12).all()


@given(kind=st.sampled_from(KINDS), masses=MASSES, seed=st.integers(0, 99))
def test_norm_gradient_is_the_derivative(kind, masses, seed):
    measure = random_measure(Case(masses=masses), generator(seed))
    budget = BUDGETS[kind](0.1)
    field = torch.randn(measure.points.shape, generator=generator(seed + 1), dtype=torch.float64)
    claimed = budget.norm_gradient(field, measure)
    leaf = field.clone().requires_grad_(True)
    (exact,) = torch.autograd.grad(budget.norm(leaf, measure).sum(), leaf)
    assert torch.allclose(claimed, exact, atol=1e-12)


@given(kind=st.sampled_from(KINDS), masses=MASSES, seed=st.integers(0, 99))
def test_hilbert_norm_dominates_and_reach_is_respected(kind, masses, seed):
    measure = random_measure(Case(masses=masses), generator(seed))
    budget = BUDGETS[kind](0.1)
    field = budget.sample(measure, generator(seed + 1))
    hilbert = (budget.weights(measure) * field.square().sum(-1)).sum(-1).sqrt()
    assert (hilbert <= budget.hilbert_radius(measure) * (1 + 1e-12)).all()
    assert (budget.norm(field, measure) <= hilbert * (1 + 1e-12)).all()
    assert (field.norm(dim=-1) <= budget.reach(measure) * (1 + 1e-12)).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("radius", [-1.0, math.nan, math.inf])
def test_radii_that_are_none_are_refused(kind, radius):
    with pytest.raises(UserError, match="not negative"):
        BUDGETS[kind](radius)


@pytest.mark.parametrize("kind", KINDS)
def test_radius_zero_moves_nothing(kind):
    measure = random_measure(Case(), generator(0))
    field = torch.ones_like(measure.points)
    assert (BUDGETS[kind](0.0).project(field, measure) == 0).all()


def test_moving_padding_is_outside():
    measure = TokenMeasure.padded(torch.zeros(1, 2, 1).double(), torch.tensor([1]))
    field = torch.tensor([[[0.0], [1e-9]]]).double()
    assert not Wasserstein(1.0).contains(field, measure).any()


@pytest.mark.parametrize("budget", [kind(0.7) for kind in BUDGETS.values()], ids=lambda budget: budget.kind)
def test_subnormal_gradients_give_numbers(budget):
    """Gradients of 1e-310, as attention that has underflowed leaves them (the first soundness campaign, seed 5005)."""
    measure = TokenMeasure.uniform(torch.zeros(1, 2, 2, dtype=torch.float64))
    gradient = torch.tensor([[[1e-310, 0.0], [0.0, 0.0]]], dtype=torch.float64)
    assert torch.isfinite(budget.steepest(gradient, measure)).all()
    assert torch.isfinite(budget.norm_gradient(gradient, measure)).all()
    assert bool(budget.contains(budget.steepest(gradient, measure), measure).all())


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("kind", sorted(BUDGETS))
@pytest.mark.parametrize("support", [None, TokenRadius()], ids=["free", "supported"])
def test_the_slope_never_points_out_and_is_the_gradient_inside(case, kind, support):
    """A small step along it stays in the budget to first order; in the interior nothing is taken from the gradient."""
    measure, budget = random_measure(case, generator(0)), BUDGETS[kind](0.5, support)
    gradient = torch.randn(measure.points.shape, generator=generator(1), dtype=torch.float64)
    roots = budget.weights(measure).sqrt()[..., None]
    edge = budget.project(10 * budget.sample(measure, generator(2)), measure)
    slope = budget.slope(gradient, edge, measure)
    step = torch.where(roots > 0, 1e-6 * slope / torch.where(roots > 0, roots, 1.0), 0.0)
    assert (budget.norm(edge + step, measure) <= 0.5 + 1e-9).all()
    assert ((gradient * step).sum((-1, -2)) >= 0).all()
    inside = budget.slope(gradient, 0.5 * edge, measure)
    if support is None:
        scaled = torch.where(roots > 0, gradient / torch.where(roots > 0, roots, 1.0), 0.0)
        assert torch.allclose(inside, scaled)


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_put_on_the_edge_in_single_precision_is_on_the_edge(kind):
    budget, measure = BUDGETS[kind](0.3), random_measure(Case(), generator(0)).to(torch.float32)
    for seed in range(20):
        edge = budget.sample(measure, generator(seed))
        slope = budget.slope(budget.weights(measure)[..., None] * edge, edge, measure)
        assert float(slope.abs().max()) <= 1e-6 * float(edge.abs().max())


@pytest.mark.parametrize("kind", sorted(BUDGETS))
def test_a_radius_beyond_single_precision_limits_nothing_there(kind):
    measure = random_measure(Case(), generator(0)).to(torch.float32)
    field = torch.randn(measure.points.shape, generator=generator(1))
    assert torch.equal(BUDGETS[kind](1e39).project(field, measure), field)

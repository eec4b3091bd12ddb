import sys

import ot
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.rounding import evaluation_error
from robust_attn.budget import BUDGETS, Wasserstein
from robust_attn.observation import BudgetExceededError, moved_inside, observe, wasserstein_distance
from tests.cases import CASES, generator, one_sample, random_layer, random_measure, scalar_layer, scalar_measure


@given(seed=st.integers(0, 10**6), log_size=st.floats(-3, 1), copies=st.integers(1, 2))
def test_transport_by_an_assignment_is_that_of_the_solver(seed, log_size, copies):
    """Atoms of unequal mass, some at one place and one without any, that move little or past one another."""
    g = torch.Generator().manual_seed(seed)
    first = torch.randn(5, 2, generator=g, dtype=torch.float64).repeat_interleave(copies, dim=0)
    second = first + 10**log_size * torch.randn(first.shape, generator=g, dtype=torch.float64)
    masses = torch.rand(len(first), generator=g, dtype=torch.float64) + 0.01
    masses[0] = 0.0
    masses = masses / masses.sum()
    cost = torch.cdist(first, second, compute_mode="donot_use_mm_for_euclid_dist") ** 2
    exact = ot.emd2(masses.numpy(), masses.numpy(), cost.numpy()) ** 0.5
    assert float(wasserstein_distance(first, second, masses)) == pytest.approx(exact, rel=1e-9)


def test_what_moves_little_needs_no_solver(monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", None)
    first, masses = torch.tensor([[0.0], [1.0]]).double(), torch.tensor([0.25, 0.75]).double()
    assert float(wasserstein_distance(first, first + 0.1, masses)) == pytest.approx(0.1)
    with pytest.raises(ImportError):
        wasserstein_distance(first, first.flip(0) + 0.1, masses)


def test_exact_transport_by_hand():
    """(0, 1) to (1.1, 0.2) with equal masses: the index coupling costs more than swapping, (.2^2 + .1^2)/2 = .025."""
    first, second = torch.tensor([[0.0], [1.0]]).double(), torch.tensor([[1.1], [0.2]]).double()
    distance = wasserstein_distance(first, second, torch.full((2,), 0.5).double())
    assert float(distance) == pytest.approx(0.025**0.5)


@given(seed=st.integers(0, 30), index=st.integers(0, len(CASES) - 1))
def test_transport_never_exceeds_the_index_coupling(seed, index):
    case = CASES[index]
    layer, measure = random_layer(case, generator(seed)), random_measure(case, generator(seed + 1))
    budget = Wasserstein(0.7)
    seen = observe(layer, measure, measure.points + budget.sample(measure, generator(seed + 2)), budget)
    assert (seen.w2_input <= seen.input_change * (1 + 1e-9)).all()
    assert (seen.w2_output <= seen.output_change * (1 + 1e-9)).all()


def test_gain_by_hand():
    """A = 0, V = 3: both tokens move by .1, so does their mean; the output moves by .3, the gain is 3."""
    measure = one_sample(scalar_measure([0.0, 1.0]))
    seen = observe(scalar_layer(0.0, 3.0), measure, measure.points + 0.1, Wasserstein(0.1))
    assert float(seen.gain) == pytest.approx(3.0)
    assert float(seen.w2_gain) == pytest.approx(3.0)


@pytest.mark.parametrize("kind", sorted(BUDGETS))
def test_a_budget_that_does_not_project_is_caught(kind, monkeypatch):
    measure = one_sample(scalar_measure([0.0, 1.0]))
    monkeypatch.setattr(BUDGETS[kind], "project", lambda self, field, measure: field)  # noqa: ARG005
    with pytest.raises(BudgetExceededError):
        observe(scalar_layer(1.0), measure, measure.points + 1.0, BUDGETS[kind](0.1))


def test_points_that_are_not_numbers_give_nan_not_a_crash():
    measure = one_sample(scalar_measure([0.0, 1.0]))
    first = torch.tensor([[[torch.nan], [1.0]]]).double()
    assert torch.isnan(wasserstein_distance(first, measure.points, measure.masses)).all()


@given(seed=st.integers(0, 200), kind=st.sampled_from(sorted(BUDGETS)), log_radius=st.floats(-18, 1))
def test_rounding_never_carries_points_out_of_the_budget(seed, kind, log_radius):
    """x + d is rounded: at |x| ~ 5 and radius 1e-6 the excess was 1e-10, enough to beat the hull of equal tokens.

    (Found by the first soundness campaign, seed 327, before points were shrunk to fit.)
    """
    measure = random_measure(CASES[0], generator(seed), radius=5.0)
    layer, budget = random_layer(CASES[0], generator(seed + 1)), BUDGETS[kind](10**log_radius)
    seen = observe(layer, measure, measure.points + budget.sample(measure, generator(seed + 2)), budget)
    assert (seen.input_change <= budget.radius).all()
    assert log_radius < -9 or (seen.input_change >= 0.99 * budget.radius).all()


@given(seed=st.integers(0, 100), kind=st.sampled_from(sorted(BUDGETS)), log_radius=st.floats(-8, 1))
def test_points_of_a_float32_model_are_inside_as_rounded_to_float32(seed, kind, log_radius):
    """The norm is taken exactly: in float32 alone a projected displacement was "outside" by its own rounding."""
    measure = random_measure(CASES[0], generator(seed), radius=5.0).to(torch.float32)
    budget = BUDGETS[kind](10**log_radius)
    moved = moved_inside(measure, measure.points + budget.sample(measure, generator(seed + 2)), budget)
    assert moved.points.dtype == torch.float32
    home = TokenMeasure(measure.points.double(), measure.masses.double(), measure.positions)
    size = budget.norm(moved.points.double() - home.points, home)
    assert (size <= budget.radius).all()
    assert log_radius < -3 or (size >= 0.99 * budget.radius).all()


@given(seed=st.integers(0, 300), index=st.integers(0, len(CASES) - 1), log_scale=st.floats(-1, 1.5))
def test_evaluation_error_dominates_the_error_of_float32(seed, index, log_scale):
    """float64 is exact beside float32: the formula with float32's unit must cover the difference, at any logits."""
    case = CASES[index]
    layer = random_layer(case, generator(seed), scale=10**log_scale).to(torch.float32)
    measure = random_measure(case, generator(seed + 1)).to(torch.float32)
    exact = layer.to(torch.float64)(TokenMeasure(measure.points.double(), measure.masses.double(), measure.positions))
    error = (layer(measure).double() - exact).norm(dim=-1)
    error = torch.where(measure.present, error, torch.zeros_like(error)).amax(-1)
    assert (error <= evaluation_error(layer, measure).double()).all()


def test_logits_of_thousands_are_not_taken_for_violations():
    """the first soundness campaign, seed 327: logits near 3000 carry 1e-12 into the weights, beyond 64 units of f."""
    layer, measure = random_layer(CASES[0], generator(0), scale=30.0), random_measure(CASES[0], generator(1))
    assert (evaluation_error(layer, measure) >= 1e-12 * layer(measure).norm(dim=-1).amax(-1)).all()


@pytest.mark.parametrize("masses", [[0.5, 0.5], [0.3, 0.7]])
@pytest.mark.parametrize("power", [-560, -100, 0, 300, 700])
def test_w2_of_points_whose_squares_are_no_numbers(masses, power):
    """Points of any size that is a power of two: the distance is multiplied by it, to the last digit."""
    masses = torch.tensor(masses).double()
    first, second = (torch.randn(2, 3, generator=generator(seed), dtype=torch.float64) for seed in (0, 1))
    plain = wasserstein_distance(first, second, masses)
    assert float(wasserstein_distance(first * 2.0**power, second * 2.0**power, masses)) == float(plain) * 2.0**power
    assert float(wasserstein_distance(0 * first, 0 * second, masses)) == 0.0

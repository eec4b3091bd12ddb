import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.budget import BUDGETS, Wasserstein
from robust_attn.observe import BudgetExceededError, observe, wasserstein_distance
from tests.cases import CASES, generator, one_sample, random_layer, random_measure, scalar_layer, scalar_measure


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

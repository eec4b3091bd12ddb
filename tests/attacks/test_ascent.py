import pytest
import torch

from robust_attn.attacks.ascent import Ascent, ascend, ascend_all, strongest
from robust_attn.budget import BUDGETS, Wasserstein
from robust_attn.spectral.lipschitz import local_lipschitz
from tests.cases import CASES, Case, generator, random_layer, random_measure


@pytest.mark.parametrize("case", CASES[::6], ids=str)
@pytest.mark.parametrize("kind", sorted(BUDGETS))
def test_never_worse_than_its_start_never_decreasing_and_inside(case, kind):
    layer, measure, budget = random_layer(case, generator(0)), random_measure(case, generator(1)), BUDGETS[kind](0.5)
    found = ascend(layer, measure, budget, budget.sample(measure, generator(2)), steps=15)
    history = torch.stack(found.history)
    assert (history.diff(dim=0) >= 0).all()
    assert torch.equal(history[-1], found.output_change)
    assert budget.contains(found.displacement, measure).all()
    attained = budget.norm(layer(measure.with_points(measure.points + found.displacement)) - layer(measure), measure)
    assert torch.allclose(attained, found.output_change, rtol=1e-12)


def test_small_radius_reaches_the_local_constant_from_a_random_start():
    """Power iteration in disguise: the gain tends to the largest singular value."""
    layer, measure, budget = random_layer(Case(), generator(0)), random_measure(Case(), generator(1)), Wasserstein(1e-6)
    found = ascend(layer, measure, budget, budget.sample(measure, generator(2)), steps=200)
    exact = local_lipschitz(layer, measure).lower
    assert (found.output_change / 1e-6 >= 0.99 * exact).all()


def test_strongest_chooses_sample_by_sample():
    def made(changes: list[float], displacement: float, steps: int) -> Ascent:
        values = torch.tensor(changes).double()
        return Ascent(torch.full((2, 1, 1), displacement).double(), values, (values,) * steps)

    best = strongest([made([1.0, 5.0], 10.0, 1), made([2.0, 3.0], 20.0, 3)])
    assert best.output_change.tolist() == [2.0, 5.0]
    assert best.displacement.flatten().tolist() == [20.0, 10.0]
    assert [step.tolist() for step in best.history] == [[2.0, 5.0]] * 3


def test_hopeless_starts_are_given_up_and_promising_ones_are_not():
    layer, measure, budget = random_layer(Case(), generator(0)), random_measure(Case(), generator(1)), Wasserstein(1e-3)
    start = budget.sample(measure, generator(2))
    free = ascend(layer, measure, budget, start, steps=50)
    beaten = ascend(layer, measure, budget, start, steps=50, to_beat=1e3 * free.output_change)
    behind = ascend(layer, measure, budget, start, steps=50, to_beat=0.1 * free.output_change)
    assert len(beaten.history) < len(behind.history)
    assert torch.equal(behind.output_change, free.output_change)


def test_the_order_of_starts_keeps_the_best():
    layer, measure, budget = random_layer(Case(), generator(0)), random_measure(Case(), generator(1)), Wasserstein(0.5)
    starts = [budget.sample(measure, generator(seed)) for seed in range(3)]
    best = ascend_all(layer, measure, budget, starts, steps=20)
    for start in starts:
        assert (best.output_change >= ascend(layer, measure, budget, start, steps=0).output_change).all()

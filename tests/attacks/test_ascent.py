import pytest
import torch

from robust_attn.attacks.ascent import ascend, ascend_all, output_change
from robust_attn.budget import BUDGETS, Wasserstein
from robust_attn.spectral.lipschitz import local_lipschitz
from tests.cases import CASES, Case, generator, random_layer, random_measure


def at(layer, budget):
    return lambda many: output_change(layer, many, budget)


@pytest.mark.parametrize("case", CASES, ids=str)
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


def test_the_order_of_starts_keeps_the_best():
    layer, measure, budget = random_layer(Case(), generator(0)), random_measure(Case(), generator(1)), Wasserstein(0.5)
    starts = torch.stack([budget.sample(measure, generator(seed)) for seed in range(5)])
    best = ascend_all(at(layer, budget), measure, budget, starts, steps=20)
    for start in starts:
        assert (best.output_change >= ascend(layer, measure, budget, start, steps=0).output_change).all()


def test_a_start_that_is_no_number_begins_at_the_tokens_and_harms_no_other():
    """Found by the soundness campaign (seed 100193): overflow in float32 made starts NaN, and the points with them."""
    layer, measure, budget = random_layer(Case(), generator(0)), random_measure(Case(), generator(1)), Wasserstein(0.5)
    good = budget.sample(measure, generator(2))
    broken = good.clone()
    broken[0, 1, 2] = torch.nan
    found = ascend(layer, measure, budget, broken, steps=5)
    assert torch.isfinite(found.displacement).all()
    both = ascend_all(at(layer, budget), measure, budget, torch.stack((broken, good)), steps=5)
    assert (
        both.output_change >= ascend_all(at(layer, budget), measure, budget, good[None], steps=5).output_change * 0.999
    ).all()


def test_a_summit_stays_where_nothing_is_higher_and_nobody_climbs_there_again():
    layer, measure, budget = random_layer(Case(), generator(0)), random_measure(Case(), generator(1)), Wasserstein(0.5)
    summit = ascend(layer, measure, budget, budget.sample(measure, generator(2)), steps=10)
    places = []

    def seen(many):
        inner = output_change(layer, many, budget)
        return lambda field: (places.append(field), inner(field))[1]

    nowhere = torch.zeros_like(measure.points)[None]
    found = ascend_all(seen, measure, budget, nowhere, steps=80, summit=summit.displacement)
    assert torch.equal(found.output_change, summit.output_change)
    assert torch.equal(found.displacement, summit.displacement)
    assert all((values == summit.output_change).all() for values in found.history)
    assert sum(bool(place.any()) for place in places) == 1


def test_what_rises_above_a_summit_climbs_to_the_end():
    layer, measure, budget = random_layer(Case(), generator(0)), random_measure(Case(), generator(1)), Wasserstein(0.5)
    start, low = budget.sample(measure, generator(2)), 1e-3 * budget.sample(measure, generator(3))
    alone = ascend_all(at(layer, budget), measure, budget, start[None], steps=40)
    beside = ascend_all(at(layer, budget), measure, budget, start[None], steps=40, summit=low)
    assert (beside.output_change >= alone.output_change * (1 - 1e-5)).all()

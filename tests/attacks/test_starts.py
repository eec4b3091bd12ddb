import pytest
import torch

from robust_attn.attacks.starts import (
    CONCENTRATED,
    SINGULAR,
    concentrated_directions,
    exact_change,
    looked_at,
    move_starts,
    singular_directions,
    spent,
    strongest,
)
from robust_attn.attention.operator import ScaledJacobian
from robust_attn.budget import BUDGETS, Wasserstein
from tests.cases import CASES, Case, generator, one_sample, random_layer, random_measure


@pytest.mark.parametrize("case", CASES, ids=str)
def test_singular_directions_are_those_of_the_dense_matrix(case):
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1), samples=1)
    operator = ScaledJacobian(layer.linearize(measure), measure.masses)
    found = singular_directions(operator, 2, generator(2))
    _, values, vt = torch.linalg.svd(operator.dense()[0])
    for index in range(2):
        if values[index] - values[index + 1] > 0.05 * values[0] and (index == 0 or values[0] - values[1] > 0.05):
            assert abs(float(found[index].flatten() @ vt[index])) == pytest.approx(1.0, abs=1e-3)


def test_the_first_concentrated_direction_moves_one_token_as_its_block_says():
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1), samples=1)
    operator = ScaledJacobian(layer.linearize(measure), measure.masses)
    blocks = operator.dense()[0].unflatten(-1, (measure.length, measure.width))
    for field in concentrated_directions(operator, 3, generator(2)):
        token = int(field[0].norm(dim=-1).argmax())
        assert int((field[0].norm(dim=-1) > 0).sum()) == 1
        exact = float(torch.linalg.matrix_norm(blocks[:, token], 2))
        assert 0.7 * exact <= float(operator.jvp(field).norm()) <= exact * (1 + 1e-12)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("kind", sorted(BUDGETS))
def test_starts_lie_in_the_budget_and_as_many_as_said(case, kind):
    layer, measure, budget = random_layer(case, generator(0)), random_measure(case, generator(1)), BUDGETS[kind](0.3)
    starts = move_starts(layer, measure, budget, generator(2), random=2, change=exact_change(layer, measure))
    assert starts.shape == (SINGULAR + CONCENTRATED + 2, *measure.points.shape)
    assert all(bool(budget.contains(start, measure).all()) for start in starts)


def test_the_strongest_is_the_best_of_all_and_their_opposites():
    layer, measure, budget = random_layer(Case(), generator(0)), random_measure(Case(), generator(1)), Wasserstein(0.7)
    starts = torch.stack([budget.sample(measure, generator(seed)) for seed in range(4)])
    kept = strongest(measure, budget, starts, 1, exact_change(layer, measure))[0]
    changes = [
        budget.norm(layer(measure.with_points(measure.points + start)) - layer(measure), measure)
        for start in (kept, *starts, *(-starts))
    ]
    assert torch.allclose(changes[0], torch.stack(changes[1:]).amax(0))


def test_spending_keeps_the_direction_in_the_scaled_coordinates():
    """Masses 1/4 and 3/4, direction (1, 1) there: displacements 2 and 2/3^(1/2), up to a factor."""
    case = Case(masses="unequal")
    measure = one_sample(random_measure(case, generator(0)).sample(0))
    field = spent(Wasserstein(0.5), measure, torch.ones(1, *measure.points.shape, dtype=torch.float64))[0]
    scaled = measure.masses.sqrt()[..., None] * field
    assert torch.allclose(scaled, scaled[..., :1, :1].expand_as(scaled))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_small_budgets_are_nearly_linear_and_large_ones_are_not(case):
    layer, measure = random_layer(case, generator(0), scale=1.0), random_measure(case, generator(1))
    for radius, expected in ((1e-5, True), (10.0, False)):
        budget = Wasserstein(radius)
        starts = move_starts(layer, measure, budget, generator(2), random=1, change=exact_change(layer, measure))
        assert looked_at(measure, budget, starts, exact_change(layer, measure)).linear is expected

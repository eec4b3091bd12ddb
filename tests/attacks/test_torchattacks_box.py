"""The attack's balls in the box lie inside the budget, and in Hilbert budgets the L2 ball is the budget."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.attacks.torchattacks_box import BudgetBox, PixelBox
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Frobenius, PerToken, Wasserstein
from tests.cases import Case, generator, random_measure

BUDGETS = [Wasserstein(0.3), Frobenius(0.3), PerToken(0.3)]
MASSES = ["uniform", "unequal", "padded", "copies"]


def in_ball(shape: torch.Size, radius: float, norm: float, seed: int) -> torch.Tensor:
    noise = torch.randn(shape, generator=generator(seed), dtype=torch.float64)
    return radius * (noise.sign() if norm == math.inf else noise / noise.norm())


@given(seed=st.integers(0, 10**6), masses=st.sampled_from(MASSES), budget=st.sampled_from(BUDGETS))
def test_the_balls_lie_inside_the_budget(seed, masses, budget):
    measure = random_measure(Case(masses=masses), generator(seed)).sample(0)
    box = BudgetBox(measure, budget)
    for norm, radius in ((2.0, box.l2_radius()), (math.inf, box.linf_radius())):
        images = box.image + in_ball(box.image.shape, radius, norm, seed)
        assert 0 <= float(images.min()) <= float(images.max()) <= 1
        moved = box.points(images)[0] - measure.points
        assert bool(budget.contains(moved * (1 - 1e-12), measure))
        assert not bool(moved[~measure.present].any())


@pytest.mark.parametrize("masses", MASSES)
@pytest.mark.parametrize("budget", BUDGETS[:2])
def test_the_l2_ball_of_meaningful_pixels_is_the_whole_budget(masses, budget):
    measure = random_measure(Case(masses=masses), generator(1)).sample(1)
    box = BudgetBox(measure, budget)
    steps = torch.zeros_like(box.image).flatten()
    steps[: box.coordinates] = in_ball(torch.Size([box.coordinates]), box.l2_radius(), 2.0, 5)
    moved = box.points(box.image + steps.reshape(box.image.shape))[0] - measure.points
    assert float(budget.norm(moved, measure)) == pytest.approx(budget.radius, rel=1e-12)


def test_corners_of_the_cube_move_every_token_by_the_radius_per_token():
    measure = random_measure(Case(), generator(1)).sample(0)
    box = BudgetBox(measure, PerToken(0.3))
    corner = box.image + in_ball(box.image.shape, box.linf_radius(), math.inf, 2)
    torch.testing.assert_close((box.points(corner)[0] - measure.points).norm(dim=-1), torch.full((4,), 0.3).double())


def test_the_middle_of_the_box_is_the_tokens():
    measure = random_measure(Case(masses="padded"), generator(3)).sample(0)
    box = BudgetBox(measure, Wasserstein(0.3))
    assert box.image.shape == (1, 1, 5, 5)
    assert torch.equal(box.points(box.image.expand(3, -1, -1, -1)), measure.points.expand(3, -1, -1))


@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_there_and_back(channels):
    pixels = 2 * torch.rand(channels, 4, 6, generator=generator(0), dtype=torch.float64) - 1
    measure = TokenMeasure.uniform(pixels.flatten(1).T)
    for budget in BUDGETS:
        box = PixelBox(measure, budget, (channels, 4, 6))
        torch.testing.assert_close(box.image[0], (pixels + 1) / 2)
        torch.testing.assert_close(box.points(box.image)[0], measure.points)
        for norm, radius in ((2.0, box.l2_radius()), (math.inf, box.linf_radius())):
            moved = box.points(box.image + in_ball(box.image.shape, radius, norm, 7))[0] - measure.points
            assert bool(budget.contains(moved * (1 - 1e-12), measure))


def test_of_grey_images_the_per_token_budget_is_the_cube():
    """One channel, radius 0.3 in [-1, 1] is 0.15 in [0, 1]; 24 pixels in Frobenius: 0.15 / sqrt(24) each."""
    measure = TokenMeasure.uniform(torch.zeros(24, 1, dtype=torch.float64))
    assert PixelBox(measure, PerToken(0.3), (1, 4, 6)).linf_radius() == pytest.approx(0.15)
    assert PixelBox(measure, Frobenius(0.3), (1, 4, 6)).linf_radius() == pytest.approx(0.15 / math.sqrt(24))
    assert PixelBox(measure, Wasserstein(0.3), (1, 4, 6)).linf_radius() == pytest.approx(0.15)

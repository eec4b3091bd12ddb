"""Randomised smoothing against values by hand, and on half spaces, where the true radius is known."""

import pytest
import torch
from scipy import stats

from robust_attn.predictions.smoothing import Smoothing, clopper_pearson_lower, randomised_smoothing
from tests.cases import generator


def linear(x):
    return torch.stack([x[:, 0, 0], -x[:, 0, 0]], dim=1)


def smoothed(points, sigma, samples, seed=0, **options):
    return randomised_smoothing(
        linear, points, Smoothing(sigma, samples, **options), generator=generator(seed), batch=5000
    )


def test_clopper_and_pearson_when_every_draw_hits():
    """All of n: p^n = alpha, so the lower value is alpha^{1/n}: 0.001^{1/100} = 0.93325."""
    assert clopper_pearson_lower(100, 100, 1e-3) == pytest.approx(0.933254, abs=1e-6)
    assert clopper_pearson_lower(0, 100, 1e-3) == 0


def test_clopper_and_pearson_for_one_miss_of_two():
    """P(at least 1 of 2) = 1 - (1 - p)^2 = 0.19 for p = 0.1."""
    assert clopper_pearson_lower(1, 2, 0.19) == pytest.approx(0.1)


@pytest.mark.parametrize(("hits", "samples", "chance"), [(90, 100, 0.01), (55, 60, 1e-3), (7, 9, 0.2)])
def test_at_the_lower_value_so_many_hits_have_that_probability(hits, samples, chance):
    lower = clopper_pearson_lower(hits, samples, chance)
    assert stats.binom.sf(hits - 1, samples, lower) == pytest.approx(chance)


def test_the_largest_radius_of_a_thousand_samples():
    """Far from the boundary every draw hits: sigma Phi^-1(0.001^{1/1000}) = 2.4596 sigma."""
    found = smoothed(torch.tensor([[9.0, 0.0]]).double(), 0.1, 1000)
    assert found.radius == pytest.approx(0.1 * float(stats.norm.ppf(1e-3 ** (1 / 1000))))
    assert found.radius / 0.1 == pytest.approx(2.46, abs=0.01)


def test_a_half_space_has_its_own_distance_as_radius():
    """The smoothed class flips where x_0 does: the radius is below |x_0| = 0.5, and near it with many samples."""
    points = torch.tensor([[0.5, 0.0]]).double()
    found = smoothed(points, 0.4, 20_000)
    assert found.label == 0
    assert 0.45 < found.radius < 0.5


def test_the_radius_exceeds_the_distance_no_more_often_than_stated():
    """400 repetitions at a failure probability of 0.05: 20 are expected at most, 40 have probability below 1e-4."""
    points = torch.tensor([[0.5, 0.0]]).double()
    wrong = sum(smoothed(points, 0.5, 50, seed, failure_probability=0.05).radius > 0.5 for seed in range(400))
    assert wrong < 40


def test_it_abstains_where_classes_are_even():
    found = smoothed(torch.zeros(1, 2).double(), 1.0, 200)
    assert (found.label, found.radius) == (None, 0.0)

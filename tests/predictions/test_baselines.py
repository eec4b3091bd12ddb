"""Baselines against values by hand, and against points of the boxes that they speak of."""

import math

import pytest
import torch
from scipy import stats

from robust_attn.predictions.baselines import (
    clopper_pearson_lower,
    constant_product,
    interval_margin,
    interval_radius,
    randomised_smoothing,
)
from robust_attn.predictions.certificate import _rivals
from tests.cases import generator
from tests.predictions.cases import random_network


@pytest.mark.parametrize("seed", range(8))
def test_intervals_contain_every_point_of_the_box(seed):
    network, points = random_network(seed)
    tape = network.tape(points)
    _, rivals = _rivals(tape.logits)
    g, radius = generator(seed), 0.01
    lower = interval_margin(tape, radius, torch.ones_like(points), rivals)
    for _ in range(50):
        step = radius * (2 * torch.rand(points.shape, generator=g, dtype=torch.float64) - 1).sign()
        assert float((rivals @ network.tape(points + step).logits).min()) >= lower or math.isnan(lower)


def test_the_interval_radius_is_where_the_margin_ends():
    network, points = random_network(2)
    tape = network.tape(points)
    _, rivals = _rivals(tape.logits)
    radius = interval_radius(tape, torch.ones_like(points), rivals)
    assert radius > 0
    assert interval_margin(tape, radius, torch.ones_like(points), rivals) > 0
    assert not interval_margin(tape, 1.06 * radius, torch.ones_like(points), rivals) > 0


@pytest.mark.parametrize("seed", range(4))
def test_the_product_of_constants_is_at_least_the_norm_of_the_derivative(seed):
    network, points = random_network(seed)
    jacobian = torch.autograd.functional.jacobian(lambda x: network.tape(x, detach=False).logits, points)
    norm = float(torch.linalg.matrix_norm(jacobian.flatten(1), 2))
    assert constant_product(network.tape(points)) >= math.log10(norm) - 1e-9


def test_clopper_and_pearson_when_every_draw_hits():
    """All of n: p^n = alpha, so the lower value is alpha^{1/n}."""
    assert clopper_pearson_lower(100, 100, 1e-3) == pytest.approx(1e-3 ** (1 / 100))
    assert clopper_pearson_lower(0, 100, 1e-3) == 0


def linear(x):
    return torch.stack([x[:, 0, 0], -x[:, 0, 0]], dim=1)


def test_smoothing_a_half_space_finds_the_distance_to_it():
    """The smoothed class flips where x_0 does: the radius is below |x_0| = 0.5 and near it."""
    points = torch.tensor([[0.5, 0.0]], dtype=torch.float64)
    found = randomised_smoothing(linear, points, sigma=0.4, samples=20_000, generator=generator(0), batch=5000)
    assert found.label == 0
    assert 0.45 < found.radius < 0.5
    assert stats.norm.cdf(found.radius / 0.4) < stats.norm.cdf(0.5 / 0.4)


def test_smoothing_abstains_where_classes_are_even():
    points = torch.zeros(1, 2, dtype=torch.float64)
    found = randomised_smoothing(linear, points, sigma=1.0, samples=200, generator=generator(0))
    assert (found.label, found.radius) == (None, 0.0)

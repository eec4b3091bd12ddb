"""Simpler proofs against attacks, against points of the boxes that they speak of, and against values by hand."""

import math

import pytest
import torch

from robust_attn.predictions.baselines import interval_margin, interval_radius, product_margin, product_radius
from robust_attn.predictions.steps import Network, Weights
from tests.cases import generator
from tests.predictions.cases import margin, random_network, smallest_margin


@pytest.mark.parametrize("seed", range(8))
def test_intervals_contain_every_point_of_the_box(seed):
    network, points = random_network(seed)
    label, g, radius = int(network.tape(points).logits.argmax()), generator(seed), 0.01
    lower = interval_margin(network.tape(points), radius, torch.ones_like(points))
    for _ in range(50):
        step = radius * (2 * torch.rand(points.shape, generator=g, dtype=torch.float64) - 1).sign()
        assert float(margin(network, points + step, label)) >= lower or math.isnan(lower)


def test_radii_are_where_margins_end():
    network, points = random_network(2)
    tape, free = network.tape(points), torch.ones_like(points)
    radius = interval_radius(tape, free)
    assert interval_margin(tape, radius, free) > 0
    assert not interval_margin(tape, 1.06 * radius, free) > 0
    radius = product_radius(tape)
    assert product_margin(tape, radius) > 0
    assert not product_margin(tape, 1.06 * radius) > 0


@pytest.mark.parametrize("seed", range(12))
def test_no_attack_flips_within_them(seed):
    network, points = random_network(seed)
    tape, free = network.tape(points), torch.ones_like(points)
    for radius in (interval_radius(tape, free), product_radius(tape)):
        assert 0 < radius < 1
        assert smallest_margin(network, points, radius, free=free, seed=seed) > 0


@pytest.mark.parametrize("seed", range(12))
def test_logits_move_no_further_than_constants_say(seed):
    """Also far outside the certified radius: the bound is on the change, whatever the margin."""
    network, points = random_network(seed)
    tape, g = network.tape(points), generator(seed)
    label = int(tape.logits.argmax())
    clean = float(margin(network, points, label))
    for radius in (1e-4, 1e-2, 1e-1):
        allowed = (clean - product_margin(tape, radius)) / math.sqrt(2)
        for _ in range(10):
            step = torch.randn(points.shape, generator=g, dtype=torch.float64)
            moved = network.tape(points + radius * step / step.norm()).logits
            assert float((moved - tape.logits).norm()) <= allowed


def test_a_linear_classifier_by_hand():
    """Mean of two rows of width 1, logits (x, -x): |W| = sqrt 2, pooling sqrt(2)/2, so the logits move by at most r.

    Rows 1 and 3 have mean 2 and margin 4: sqrt(2) r = 4. The box moves the mean by r and the margin by 2 r.
    """
    head = (Weights(torch.tensor([[1.0], [-1.0]]).double()),)
    network = Network(None, (), torch.tensor([0.5, 0.5]).double(), head)
    points = torch.tensor([[1.0], [3.0]]).double()
    assert product_margin(network.tape(points), 1.0) == pytest.approx(4 - math.sqrt(2))
    assert interval_margin(network.tape(points), 1.0, torch.ones_like(points)) == pytest.approx(2.0)
    assert product_radius(network.tape(points), accuracy=1e-6) == pytest.approx(4 / math.sqrt(2), rel=1e-5)
    assert interval_radius(network.tape(points), torch.ones_like(points), accuracy=1e-6) == pytest.approx(2.0, rel=1e-5)

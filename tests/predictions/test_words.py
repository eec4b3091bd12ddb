"""Certificates of any one row, and the direction that is worst to second order."""

from dataclasses import replace

import pytest
import torch

from robust_attn.predictions.certificate import Effort, certified_prediction
from robust_attn.predictions.words import certified_word, worst_direction
from tests.predictions.cases import margin, random_network, smallest_margin
from tests.selection import at_first

QUICK = Effort(samples=64, planning=64, accuracy=0.5, start=1e-2)


@pytest.mark.parametrize("seed", at_first(range(3), 1))
def test_no_row_alone_flips_within_the_radius(seed):
    network, points = random_network(seed)
    found = certified_word(network, points, range(len(points)), effort=QUICK, seed=seed)
    assert found.radius > 0
    assert found.verdict == "HOLDS"
    assert found.failure_probability == 1e-9
    for row in range(len(points)):
        free = torch.zeros_like(points)
        free[row] = 1
        assert smallest_margin(network, points, found.radius, free=free, seed=seed) > 0


def test_it_is_no_larger_than_that_of_any_row_and_no_smaller_than_that_of_all():
    network, points = random_network(1)
    found = certified_word(network, points, [0, 1], effort=QUICK, seed=1, deterministic=True)
    alone = [
        certified_prediction(network, points, perturb=row, effort=QUICK, deterministic=True).radius for row in (0, 1)
    ]
    assert found.radius <= 1.5 * min(alone)
    assert found.failure_probability == 0


def test_there_must_be_a_row():
    network, points = random_network(1)
    with pytest.raises(ValueError, match="no row"):
        certified_word(network, points, [])


@pytest.mark.parametrize("seed", range(6))
def test_the_worst_direction_is_no_better_than_the_gradient_to_second_order(seed):
    """m + <g, d> + d H d / 2 at the end of the turns is at most that along the gradient, with the dense Hessian."""
    network, points = random_network(seed)
    label = int(network.tape(points).logits.argmax())
    step = worst_direction(network, points, turns=40).flatten()
    gradient = torch.autograd.functional.jacobian(lambda x: margin(network, x, label), points).flatten()
    hessian = torch.autograd.functional.hessian(lambda x: margin(network, x, label), points)
    hessian = hessian.reshape(points.numel(), -1)
    plain = -step.norm() * gradient / gradient.norm()

    def second_order(d):
        return float(gradient @ d + d @ hessian @ d / 2)

    assert second_order(step) <= second_order(plain) + 1e-9
    assert float(step.norm()) == pytest.approx(float(margin(network, points, label) / gradient.norm()))


def test_a_row_that_nothing_reads_has_a_radius_too():
    """The last token of a causal model whose head reads the first one: nothing before it moves, to any order."""
    network, points = random_network(3)
    n = len(points)
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    blocks = tuple(replace(block, attention=replace(block.attention, visible=causal)) for block in network.blocks)
    first = torch.eye(n, dtype=torch.float64)[0]
    reads_first = replace(network, blocks=blocks, pooling=first)
    unread = certified_prediction(reads_first, points, perturb=n - 1, effort=QUICK, seed=0)
    assert unread.verdict == "HOLDS"
    assert unread.radius > 0.1
    assert certified_word(reads_first, points, range(n), effort=QUICK, seed=0).radius > 0

"""Tapes are the models they stand for, and their derivatives those of automatic differentiation."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from robust_attn.predictions.affine import Row
from robust_attn.predictions.steps import head_of
from robust_attn.soundness.whole_models import FAMILIES, of_family
from robust_attn.types import UserError
from tests.cases import generator
from tests.predictions.cases import normal, random_network


@pytest.mark.parametrize("seed", range(8))
def test_first_second_and_third_derivatives_of_every_operation(seed):
    """Along a line: f(x + t u + t^2 v / 2 ..) has derivatives that `first`, `second` and `third` give."""
    network, points = random_network(seed)
    tape, g = network.tape(points), generator(seed)
    zero, one = torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64)
    for node in tape.nodes:
        if node.operation is None:
            continue
        at = tape.at(node)
        u = [normal(g, *value.shape) for value in at]
        batch = [each[None] for each in u]

        def line(t, node=node, at=at, u=u):
            return node.operation.value(*(x + t * v for x, v in zip(at, u, strict=True)))

        def derivative(function):
            return lambda t: torch.func.jvp(function, (t,), (one,))[1]

        first = derivative(line)
        torch.testing.assert_close(node.operation.first(at, batch)[0], first(zero), rtol=1e-8, atol=1e-9)
        if node.is_curved:
            second = derivative(first)
            torch.testing.assert_close(node.operation.second(at, batch, batch)[0], second(zero), rtol=1e-7, atol=1e-8)
            third = node.operation.third(at, batch, batch, batch)
            expected = derivative(second)(zero)
            found = torch.zeros_like(expected) if third is None else third[0]
            torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("family", FAMILIES)
def test_the_last_block_of_the_only_token_read_is_that_of_all(family, seed):
    """Against the same network whose pooling also has weights, of 1e-200, for all others."""
    network, points = of_family(*random_network(seed), family, generator(seed))
    row = seed % len(network.pooling)
    one = torch.eye(len(network.pooling), dtype=torch.float64)[row]
    alone, whole = replace(network, pooling=one).tape(points), replace(network, pooling=one + 1e-200).tape(points)
    torch.testing.assert_close(alone.logits, whole.logits, rtol=1e-13, atol=1e-13)
    assert sum(isinstance(node.operation, Row) for node in alone.nodes) == 2
    assert not any(isinstance(node.operation, Row) for node in whole.nodes)
    last = [node for node in alone.nodes if node.step.endswith("mlp")][-1]
    assert last.value.shape[-2] == 1


def test_a_head_that_nobody_bounds_is_refused():
    with pytest.raises(UserError, match="a head with a Sigmoid cannot be certified"):
        head_of(nn.Sequential(nn.Linear(2, 2), nn.Sigmoid()))

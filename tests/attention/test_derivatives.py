"""Derivatives in closed form: what nested forward mode says, multilinear, symmetric, within their error."""

from itertools import product

import pytest
import torch
from torch import Tensor

from robust_attn.attention.derivatives import Derivatives
from tests.cases import (
    ADDED_CASES,
    MORE_CASES,
    NORM_CASES,
    generator,
    random_layer,
    random_measure,
    scalar_layer,
    scalar_measure,
    windowed,
)

PLAIN = [case for case in MORE_CASES + ADDED_CASES if case.masses != "padded"]


def place(case, seed=0):
    """A random layer, a measure, and three tuples of five displacements."""
    g = generator(seed)
    layer, measure = random_layer(case, g, scale=0.8), random_measure(case, g, samples=1).sample(0)
    shape = (3, *measure.points.shape)
    return layer, measure, [torch.randn(*shape, generator=g, dtype=torch.float64) for _ in range(5)]


def nested(layer, measure, *displacements: Tensor) -> Tensor:
    """One forward-mode derivative within the other."""

    def along(points: Tensor, first: Tensor, *others: Tensor) -> Tensor:
        def output(p: Tensor) -> Tensor:
            return along(p, *others) if others else layer(measure.with_points(p))

        return torch.func.jvp(output, (points,), (first,))[1]

    return along(measure.points, *displacements)


@pytest.mark.parametrize(("case", "order"), [*product(PLAIN, (2, 3)), (PLAIN[0], 5)], ids=str)
def test_it_is_what_nested_forward_mode_says(case, order):
    layer, measure, displacements = place(case)
    found = Derivatives.at(layer, measure).along(*displacements[:order])
    expected = torch.stack([nested(layer, measure, *each) for each in zip(*displacements[:order], strict=True)])
    assert torch.allclose(found.value, expected, rtol=1e-11, atol=1e-13 * float(expected.norm()))
    assert (found.error <= 1e-6 * found.size).all()
    assert ((found.value - expected).norm(dim=(-2, -1)) <= found.error + 1e-13 * found.size).all()


@pytest.mark.parametrize("order", [2, 3])
def test_windows_and_tables(order):
    layer, measure, displacements = place(MORE_CASES[8])
    layer = windowed(layer, MORE_CASES[8], generator(1))
    found = Derivatives.at(layer, measure).along(*displacements[:order]).value[0]
    expected = nested(layer, measure, *(each[0] for each in displacements[:order]))
    assert torch.allclose(found, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("case", PLAIN[:3], ids=str)
def test_it_is_symmetric_and_linear_in_every_displacement(case, order):
    layer, measure, displacements = place(case)
    derivative = Derivatives.at(layer, measure).along
    first, *others = displacements[:order]
    once = derivative(first, *others).value
    assert torch.allclose(derivative(*others, first).value, once, rtol=1e-10, atol=1e-12)
    more = derivative(first + 2 * others[0], *others).value
    assert torch.allclose(more, once + 2 * derivative(others[0], *others).value, rtol=1e-10, atol=1e-12)


def test_two_scalar_tokens_by_hand():
    """x = (0, t), A = k, V = 1. Row 0 attends equally, s_00 = 0, s_01 = 0. Move x_0 alone by d: q_0 = k d, and with
    P = P_01 = 1 / (1 + exp(k d (d - t))) the mean is d + P (t - d). At 0 P has the derivatives k t / 4, -2 k / 4 and,
    as the logistic function has the third derivative -1/8 there, -(k t)^3 / 8. So the mean has the second derivative
    -2 k t / 4 - 2 k t / 4 = -k t and the third -(k t)^3 t / 8 + 3 (2 k / 4)."""
    k, t = 0.7, 1.3
    layer, measure = scalar_layer(k), scalar_measure([0.0, t])
    d = torch.tensor([[[1.0], [0.0]]]).double()
    derivatives = Derivatives.at(layer, measure)
    assert float(derivatives.along(d, d).value[0, 0, 0]) == pytest.approx(-k * t)
    assert float(derivatives.along(d, d, d).value[0, 0, 0]) == pytest.approx(-((k * t) ** 3) * t / 8 + 1.5 * k)


def test_normalised_queries_are_refused():
    layer, measure, _ = place(NORM_CASES[0])
    with pytest.raises(ValueError, match="norms of queries"):
        Derivatives.at(layer, measure)

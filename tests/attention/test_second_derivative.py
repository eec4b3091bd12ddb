"""The second derivative in closed form: what nested forward mode says, bilinear, symmetric, within its error."""

import pytest
import torch
from torch import Tensor

from robust_attn.attention.second_derivative import SecondDerivative
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
    g = generator(seed)
    layer, measure = random_layer(case, g, scale=0.8), random_measure(case, g, samples=1).sample(0)
    shape = (3, *measure.points.shape)
    return layer, measure, *(torch.randn(*shape, generator=g, dtype=torch.float64) for _ in range(2))


def nested(layer, measure, first: Tensor, second: Tensor) -> Tensor:
    def slope(points: Tensor) -> Tensor:
        return torch.func.jvp(lambda p: layer(measure.with_points(p)), (points,), (first,))[1]

    return torch.func.jvp(slope, (measure.points,), (second,))[1]


@pytest.mark.parametrize("case", PLAIN, ids=str)
def test_it_is_what_nested_forward_mode_says(case):
    layer, measure, first, second = place(case)
    found = SecondDerivative.at(layer, measure).along(first, second)
    expected = torch.stack([nested(layer, measure, a, b) for a, b in zip(first, second, strict=True)])
    assert torch.allclose(found.value, expected, rtol=1e-11, atol=1e-12)
    assert (found.error <= 1e-6 * found.size).all()
    assert ((found.value - expected).norm(dim=(-2, -1)) <= found.error + 1e-13 * found.size).all()


def test_windows_and_tables():
    layer, measure, first, second = place(MORE_CASES[8])
    layer = windowed(layer, MORE_CASES[8], generator(1))
    found = SecondDerivative.at(layer, measure).along(first, second).value[0]
    assert torch.allclose(found, nested(layer, measure, first[0], second[0]), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("case", PLAIN[:3], ids=str)
def test_it_is_symmetric_and_linear_in_either_displacement(case):
    layer, measure, first, second = place(case)
    derivative = SecondDerivative.at(layer, measure)
    once = derivative.along(first, second).value
    assert torch.allclose(derivative.along(second, first).value, once, rtol=1e-10, atol=1e-12)
    both = derivative.along(first + 2 * second, second).value
    assert torch.allclose(both, once + 2 * derivative.along(second, second).value, rtol=1e-10, atol=1e-12)


def test_two_scalar_tokens_by_hand():
    """x = (0, t), A = k, V = 1. Row 0 attends equally, s_00 = 0, s_01 = 0. Move x_0 alone by d: q_0 = k d, and with
    P_01 = 1 / (1 + exp(k d (d - t))) the mean is d + P_01 (t - d): its second derivative at 0 is, with P' = k t / 4 and
    P'' = -2 k / 4, P'' t - 2 P' = -k t."""
    k, t = 0.7, 1.3
    layer, measure = scalar_layer(k), scalar_measure([0.0, t])
    d = torch.tensor([[[1.0], [0.0]]]).double()
    found = SecondDerivative.at(layer, measure).along(d, d).value[0, 0, 0]
    assert float(found) == pytest.approx(-k * t)


def test_normalised_queries_are_refused():
    layer, measure, *_ = place(NORM_CASES[0])
    with pytest.raises(ValueError, match="norms of queries"):
        SecondDerivative.at(layer, measure)

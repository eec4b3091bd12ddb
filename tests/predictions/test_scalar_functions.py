"""Derivatives against automatic ones, and suprema against dense grids."""

import pytest
import torch

from robust_attn.predictions.scalar_functions import Gelu, InverseRoot, Relu, Silu, Tanh, TanhGelu

SMOOTH = [Gelu(), TanhGelu(), Silu(), Tanh()]


def derivative(function, u):
    u = u.clone().requires_grad_(True)
    with torch.enable_grad():
        (slope,) = torch.autograd.grad(function(u).sum(), u)
    return slope


@pytest.mark.parametrize("function", [*SMOOTH, InverseRoot()], ids=lambda f: type(f).__name__)
def test_derivatives(function):
    u = torch.linspace(0.2 if isinstance(function, InverseRoot) else -9, 9, 2001, dtype=torch.float64)
    for lower, upper in (("value", "first"), ("first", "second"), ("second", "third")):
        expected = derivative(getattr(function, lower), u)
        torch.testing.assert_close(getattr(function, upper)(u), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("function", SMOOTH, ids=lambda f: type(f).__name__)
def test_higher_derivatives_and_their_suprema(function):
    grid = torch.linspace(-12, 12, 24_001, dtype=torch.float64)
    torch.testing.assert_close(function.fourth(grid), derivative(function.third, grid), rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(function.fifth(grid), derivative(function.fourth, grid), rtol=1e-9, atol=1e-11)
    fifth, sixth = function.fifth(grid).abs(), derivative(function.fifth, grid).abs()
    assert float(fifth.max()) <= function.fifth_supremum <= 1.02 * float(fifth.max())
    assert float(sixth.max()) <= function.sixth_supremum * (1 + 1e-12)
    assert function.sixth_supremum <= 1.02 * float(sixth.max())


@pytest.mark.parametrize("function", SMOOTH, ids=lambda f: type(f).__name__)
@pytest.mark.parametrize("order", ["fourth", "fifth"])
def test_higher_derivatives_stay_below_their_bounds_on_every_interval(function, order):
    grid = torch.linspace(-12, 12, 24_001, dtype=torch.float64)
    values = getattr(function, order)(grid).abs()
    upper = getattr(function, f"{order}_upper")
    for reach in (0.01, 0.1, 1.0):
        width = round(reach / 1e-3)
        largest = torch.nn.functional.max_pool1d(values[None, None], 2 * width + 1, 1, width)[0, 0]
        assert bool((largest <= upper(grid, torch.full_like(grid, reach)) * (1 + 1e-9)).all())


@pytest.mark.parametrize("function", SMOOTH, ids=lambda f: type(f).__name__)
def test_the_fourth_derivative_stays_below_its_bound_on_every_interval(function):
    grid = torch.linspace(-12, 12, 24_001, dtype=torch.float64)
    fourth = derivative(function.third, grid).abs()
    assert float(fourth.max()) <= function.fourth_supremum <= 1.02 * float(fourth.max())
    for reach in (0.01, 0.1, 1.0):
        width = round(reach / 1e-3)
        largest = torch.nn.functional.max_pool1d(fourth[None, None], 2 * width + 1, 1, width)[0, 0]
        assert bool((largest <= function.fourth_upper(grid, torch.full_like(grid, reach)) * (1 + 1e-9)).all())


def test_the_fourth_derivative_of_the_inverse_root():
    """u^{-1/2} at 4 with reach 3: 105/16 at 1."""
    four = torch.tensor([4.0], dtype=torch.float64)
    assert float(InverseRoot().fourth_upper(four, torch.tensor([3.0]))) == pytest.approx(105 / 16)
    assert float(InverseRoot().fourth_upper(four, torch.tensor([4.0]))) == torch.inf


def test_relu_is_flat_away_from_its_kink():
    u = torch.tensor([-1.0, 0.0, 2.0])
    assert Relu().first(u).tolist() == [0, 0, 1]
    assert Relu().fourth_upper(u, torch.ones(3)).tolist() == [torch.inf, torch.inf, 0]

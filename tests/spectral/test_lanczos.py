import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from robust_attn.attention.operator import Jacobian
from robust_attn.spectral.lanczos import bidiagonalize, largest_singular_value, upper_factor
from tests.cases import CASES, generator, random_layer, random_measure


@dataclass(frozen=True, eq=False)
class Matrix(Jacobian):
    """A dense matrix as an operator on fields of shape (n, 1)."""

    matrix: Tensor

    @property
    def domain(self) -> torch.Size:
        return torch.Size((*self.matrix.shape[:-2], self.matrix.shape[-1], 1))

    @property
    def codomain(self) -> torch.Size:
        return torch.Size((*self.matrix.shape[:-2], self.matrix.shape[-2], 1))

    @property
    def dtype(self) -> torch.dtype:
        return self.matrix.dtype

    def jvp(self, tangent: Tensor) -> Tensor:
        return self.matrix @ tangent

    def vjp(self, cotangent: Tensor) -> Tensor:
        return self.matrix.transpose(-1, -2) @ cotangent


def test_recurrence_and_orthogonality():
    matrix = torch.randn(3, 40, 30, generator=generator(0), dtype=torch.float64)
    start = torch.randn(3, 30, 1, generator=generator(1), dtype=torch.float64)
    pair = bidiagonalize(Matrix(matrix), start, 12)
    eye = torch.eye(12).double()
    assert (pair.right @ pair.right.transpose(-1, -2) - eye).abs().max() <= 1e-13
    assert (pair.left @ pair.left.transpose(-1, -2) - eye).abs().max() <= 1e-13
    assert (pair.left @ matrix @ pair.right.transpose(-1, -2) - pair.matrix()).abs().max() <= 1e-12


@pytest.mark.parametrize("case", CASES[::3], ids=str)
def test_exact_when_the_whole_space_is_searched(case):
    operator = random_layer(case, generator(0)).linearize(random_measure(case, generator(1)))
    exact = torch.linalg.svdvals(operator.dense())[..., 0]
    estimate = largest_singular_value(operator, generator=generator(2), steps=1000)
    assert estimate.failure_probability == 0
    assert (estimate.lower - exact).abs().max() <= 1e-10 * exact.max()
    assert (estimate.upper >= exact).all()


def test_lower_never_exceeds_and_direction_attains_it():
    matrix = torch.randn(5, 60, 80, generator=generator(0), dtype=torch.float64)
    estimate = largest_singular_value(Matrix(matrix), generator=generator(1), steps=10)
    exact = torch.linalg.svdvals(matrix)[..., 0]
    assert (estimate.lower <= exact * (1 + 1e-12)).all()
    image = matrix @ estimate.direction
    assert torch.allclose(image.flatten(-2).norm(dim=-1), estimate.lower, rtol=1e-10)


def test_says_when_it_did_not_converge():
    matrix = torch.diag(torch.linspace(0.99, 1.0, 300).double())
    assert not largest_singular_value(Matrix(matrix), generator=generator(0), steps=5).converged
    assert largest_singular_value(
        Matrix(torch.diag(torch.tensor([2.0, 1.0]).double())), generator=generator(0)
    ).converged


def test_upper_factor_by_hand():
    """N = 24576, k = 80, 1e-9: sqrt(e) = ln(1.648 * 156.77 * 1e9) / 159 = 26.2777 / 159, so 1/sqrt(1-e) = 1.01394."""
    root = math.log(1.648 * math.sqrt(24576) * 1e9) / 159
    assert upper_factor(24576, 80, 1e-9) == pytest.approx(1 / math.sqrt(1 - root**2))
    assert upper_factor(24576, 80, 1e-9) == pytest.approx(1.01394, abs=1e-5)


def test_too_few_steps_promise_nothing():
    assert upper_factor(24576, 5, 1e-9) == math.inf


def test_upper_fails_no_more_often_than_stated():
    """A slowly decaying spectrum, few steps, a stated probability of 0.5: at most half of 400 runs may fail."""
    spectrum = (1 - torch.arange(200).double() / 200) ** 0.25
    matrices = torch.diag(spectrum).expand(400, 200, 200)
    factor = upper_factor(200, 8, 0.5)
    estimate = largest_singular_value(Matrix(matrices), generator=generator(3), steps=8, failure_probability=0.5 * 400)
    failures = int((estimate.lower * factor < 1.0).sum())
    assert failures <= 200
    assert (estimate.lower < 1.0).all()


def test_zero_operator():
    estimate = largest_singular_value(Matrix(torch.zeros(4, 3).double()), generator=generator(0), steps=2)
    assert float(estimate.lower) == 0.0
    assert math.isfinite(float(estimate.lower))


def test_repeated_singular_values_exhaust_the_krylov_space_without_harm():
    estimate = largest_singular_value(Matrix(3 * torch.eye(20).double()), generator=generator(0), steps=15)
    assert float(estimate.lower) == pytest.approx(3.0, rel=1e-12)

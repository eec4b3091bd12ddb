"""Laws that every linear operator of the package obeys; a test class inherits them and makes its operator."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from robust_attn.attention.operator import Jacobian
from tests.cases import ADDED_CASES, CASES, Case, generator

TOLERANCE = 1e-10


class JacobianLaws:
    """Inherit, and define `make(case, g)`: an operator and the map on points whose derivative it claims to be."""

    def make(self, case: Case, g: torch.Generator) -> tuple[Jacobian, Callable[[Tensor], Tensor], Tensor]:
        raise NotImplementedError

    @pytest.fixture(params=[*CASES, *ADDED_CASES], ids=str)
    def made(self, request: pytest.FixtureRequest) -> tuple[Jacobian, Callable[[Tensor], Tensor], Tensor]:
        return self.make(request.param, generator(7))

    def test_jvp_is_the_derivative(self, made):
        operator, function, point = made
        tangent = torch.randn(operator.domain, generator=generator(1), dtype=operator.dtype)
        pushed = torch.func.jvp(function, (point,), (tangent,))[1]
        assert (operator.jvp(tangent) - pushed).abs().max() <= TOLERANCE

    def test_vjp_is_the_transposed_derivative(self, made):
        operator, function, point = made
        cotangent = torch.randn(operator.codomain, generator=generator(2), dtype=operator.dtype)
        pulled = torch.func.vjp(function, point)[1](cotangent)[0]
        assert (operator.vjp(cotangent) - pulled).abs().max() <= TOLERANCE

    def test_adjoint_identity(self, made):
        operator, _, _ = made
        tangent = torch.randn(operator.domain, generator=generator(3), dtype=operator.dtype)
        cotangent = torch.randn(operator.codomain, generator=generator(4), dtype=operator.dtype)
        left = (operator.jvp(tangent) * cotangent).sum()
        right = (tangent * operator.vjp(cotangent)).sum()
        assert abs(left - right) <= TOLERANCE * max(1.0, abs(left))

    def test_linear(self, made):
        operator, _, _ = made
        x, y = torch.randn(2, *operator.domain, generator=generator(5), dtype=operator.dtype)
        assert (operator.jvp(2 * x - 3 * y) - (2 * operator.jvp(x) - 3 * operator.jvp(y))).abs().max() <= TOLERANCE

    def test_dense_matrix_agrees(self, made):
        operator, _, _ = made
        tangent = torch.randn(operator.domain, generator=generator(6), dtype=operator.dtype)
        product = operator.dense() @ tangent.flatten(-2)[..., None]
        assert (product[..., 0] - operator.jvp(tangent).flatten(-2)).abs().max() <= TOLERANCE

    def test_samples_do_not_mix(self, made):
        operator, _, _ = made
        tangent = torch.zeros(operator.domain, dtype=operator.dtype)
        tangent[0] = 1.0
        assert (operator.jvp(tangent)[1:] == 0).all()

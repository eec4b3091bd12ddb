"""Dense matrices as operators, for tests whose answer is known from a full decomposition."""

from dataclasses import dataclass

import torch
from torch import Tensor

from robust_attn.attention.operator import Jacobian


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

    @property
    def device(self) -> torch.device:
        return self.matrix.device

    def jvp(self, tangent: Tensor) -> Tensor:
        return self.matrix @ tangent

    def vjp(self, cotangent: Tensor) -> Tensor:
        return self.matrix.transpose(-1, -2) @ cotangent


def diagonal(*values: float, size: int | None = None) -> Matrix:
    """diag(values), padded with zeros to `size`."""
    filled = torch.zeros(size or len(values), dtype=torch.float64)
    filled[: len(values)] = torch.tensor(values, dtype=torch.float64)
    return Matrix(torch.diag(filled))

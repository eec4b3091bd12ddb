"""Linear maps between token fields, with their transposes: what the spectral engine works on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor


class Jacobian(ABC):
    """A linear map from fields of shape `domain` to fields of shape `codomain`, and its transpose; batched in front."""

    @property
    @abstractmethod
    def domain(self) -> torch.Size:
        """Shape (batch..., n, d) of what `jvp` takes."""

    @property
    @abstractmethod
    def codomain(self) -> torch.Size:
        """Shape (batch..., n, out) of what `jvp` returns."""

    @abstractmethod
    def jvp(self, tangent: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n out"]:
        """The map applied to a tangent."""

    @abstractmethod
    def vjp(self, cotangent: Float[Tensor, "*batch n out"]) -> Float[Tensor, "*batch n d"]:
        """The transposed map applied to a cotangent."""

    def dense(self) -> Float[Tensor, "*batch rows columns"]:
        """The matrix itself, one column per unit tangent: for small maps and for tests."""
        batch, (n, d) = self.domain[:-2], self.domain[-2:]
        columns = []
        for index in range(n * d):
            unit = torch.zeros(n * d, dtype=self.dtype, device=self.device)
            unit[index] = 1.0
            columns.append(self.jvp(unit.reshape(n, d).expand(self.domain).contiguous()).reshape(*batch, -1))
        return torch.stack(columns, dim=-1)

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """Precision of the map."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where its tangents must be."""


class DerivedJacobian(Jacobian):
    """A map made from another one, `inner`, with the same domain and codomain."""

    inner: Jacobian

    @property
    def domain(self) -> torch.Size:
        """As the inner map."""
        return self.inner.domain

    @property
    def codomain(self) -> torch.Size:
        """As the inner map."""
        return self.inner.codomain

    @property
    def dtype(self) -> torch.dtype:
        """As the inner map."""
        return self.inner.dtype

    @property
    def device(self) -> torch.device:
        """As the inner map."""
        return self.inner.device


@dataclass(frozen=True, eq=False)
class ScaledJacobian(DerivedJacobian):
    """S J S^{-1} with S = diag(sqrt(weights)) over tokens: J measured in the norm (sum_i weights_i |x_i|^2)^{1/2}.

    A token of weight zero is left out on both sides (it neither moves nor counts).
    """

    inner: Jacobian
    weights: Float[Tensor, "*batch n"]

    def jvp(self, tangent: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n out"]:
        """S J S^{-1} tangent."""
        return self._scale * self.inner.jvp(self._inverse_scale * tangent)

    def vjp(self, cotangent: Float[Tensor, "*batch n out"]) -> Float[Tensor, "*batch n d"]:
        """S^{-1} J^T S cotangent."""
        return self._inverse_scale * self.inner.vjp(self._scale * cotangent)

    @property
    def _scale(self) -> Tensor:
        return self.weights.sqrt()[..., None]

    @property
    def _inverse_scale(self) -> Tensor:
        return torch.where(self.weights > 0, self.weights.rsqrt(), torch.zeros_like(self.weights))[..., None]


@dataclass(frozen=True, eq=False)
class FunctionJacobian(Jacobian):
    """The derivative at `point` of any torch map on fields of shape (batch..., n, d), by torch.func.

    The map must treat samples of the batch independently of one another.
    """

    function: Callable[[Tensor], Tensor]
    point: Float[Tensor, "*batch n d"]

    @property
    def domain(self) -> torch.Size:
        """The shape of the point."""
        return self.point.shape

    @property
    def codomain(self) -> torch.Size:
        """The shape of the value at the point."""
        return self._pull_back[0].shape

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the point."""
        return self.point.dtype

    @property
    def device(self) -> torch.device:
        """Where the point is."""
        return self.point.device

    def jvp(self, tangent: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n out"]:
        """Forward mode; element 1 of torch.func.jvp is the tangent (element 0 is the value)."""
        return torch.func.jvp(self.function, (self.point,), (tangent,))[1]

    def vjp(self, cotangent: Float[Tensor, "*batch n out"]) -> Float[Tensor, "*batch n d"]:
        """Reverse mode."""
        return self._pull_back[1](cotangent)[0]

    @cached_property
    def _pull_back(self) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor]]]:
        """The value and the transposed map, from one recorded forward pass that every `vjp` reuses."""
        recorded = torch.func.vjp(self.function, self.point)
        return recorded[0], recorded[1]

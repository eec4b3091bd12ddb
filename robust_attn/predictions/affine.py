"""Affine operations: nothing is left over beyond the first derivative."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from robust_attn.predictions.tape import Operation


class AffineOperation(Operation):
    """value(x) = linear(x) + offset; subclasses give `linear` and, where there is one, the offset."""

    @property
    def is_affine(self) -> bool:
        """No curvature."""
        return True

    def linear(self, tangent: Tensor) -> Tensor:
        """The linear part, on tensors with or without a batch axis in front."""
        raise NotImplementedError

    def absolute(self, half: Tensor) -> Tensor:
        """|A| half, A the matrix of the linear part; as it is where no entry of A is negative."""
        return self.linear(half)

    def interval(self, low: Sequence[Tensor], high: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Middle and half width, exactly."""
        middle, spread = self.value((low[0] + high[0]) / 2), self.absolute((high[0] - low[0]) / 2)
        return middle - spread, middle + spread

    def value(self, *at: Tensor) -> Tensor:
        """The linear part, where there is no offset."""
        return self.linear(at[0])

    def first(self, at: Sequence[Tensor], along: Sequence[Tensor]) -> Tensor:  # noqa: ARG002
        """The linear part, wherever."""
        return self.linear(along[0])


@final
@dataclass(frozen=True, eq=False)
class Project(AffineOperation):
    """x W^T + b along the last axis."""

    weight: Tensor
    bias: Tensor | None = None

    def linear(self, tangent: Tensor) -> Tensor:
        """x W^T."""
        return tangent @ self.weight.T.to(tangent)

    def absolute(self, half: Tensor) -> Tensor:
        """x |W|^T."""
        return half @ self.weight.abs().T

    def value(self, *at: Tensor) -> Tensor:
        """x W^T + b."""
        product = self.linear(at[0])
        return product if self.bias is None else product + self.bias


@final
@dataclass(frozen=True, eq=False)
class Stretch(AffineOperation):
    """gain * x + offset, entry by entry."""

    gain: Tensor
    offset: Tensor | None = None

    def linear(self, tangent: Tensor) -> Tensor:
        """gain * x."""
        return tangent * self.gain.to(tangent)

    def absolute(self, half: Tensor) -> Tensor:
        """|gain| * x."""
        return half * self.gain.abs()

    def value(self, *at: Tensor) -> Tensor:
        """gain * x + offset."""
        product = self.linear(at[0])
        return product if self.offset is None else product + self.offset


@final
@dataclass(frozen=True, eq=False)
class Add(AffineOperation):
    """Sum of two."""

    def interval(self, low: Sequence[Tensor], high: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Ends added."""
        return low[0] + low[1], high[0] + high[1]

    def value(self, *at: Tensor) -> Tensor:
        """x + y."""
        return at[0] + at[1]

    def first(self, at: Sequence[Tensor], along: Sequence[Tensor]) -> Tensor:  # noqa: ARG002
        """u + v."""
        return along[0] + along[1]


@final
@dataclass(frozen=True, eq=False)
class Heads(AffineOperation):
    """[n, heads * width] -> [heads, n, width]; keys and values that heads share are repeated for each."""

    heads: int
    repeats: int = 1

    def linear(self, tangent: Tensor) -> Tensor:
        """Cut the last axis into heads."""
        cut = tangent.unflatten(-1, (self.heads, -1)).transpose(-3, -2)
        return cut if self.repeats == 1 else cut.repeat_interleave(self.repeats, dim=-3)


@final
@dataclass(frozen=True, eq=False)
class Join(AffineOperation):
    """[heads, n, width] -> [n, heads * width]."""

    def linear(self, tangent: Tensor) -> Tensor:
        """Heads side by side."""
        return tangent.transpose(-3, -2).flatten(-2)


@final
@dataclass(frozen=True, eq=False)
class CentreLast(AffineOperation):
    """x minus its mean along the last axis."""

    def linear(self, tangent: Tensor) -> Tensor:
        """x - mean x."""
        return tangent - tangent.mean(-1, keepdim=True)

    def absolute(self, half: Tensor) -> Tensor:
        """(1 - 1/d) x + the others' share."""
        return half * (1 - 2 / half.shape[-1]) + half.mean(-1, keepdim=True)


@final
@dataclass(frozen=True, eq=False)
class CentreLogits(AffineOperation):
    """Logits minus their mean under the clean attention weights, zero where masked: the softmax does not notice."""

    weights: Tensor

    def linear(self, tangent: Tensor) -> Tensor:
        """l - sum_j P_ij l_ij."""
        weights = self.weights.to(tangent)
        return torch.where(weights > 0, tangent - (weights * tangent).sum(-1, keepdim=True), 0.0)

    def absolute(self, half: Tensor) -> Tensor:
        """(1 - P) x + the others' share."""
        spread = half * (1 - 2 * self.weights) + (self.weights * half).sum(-1, keepdim=True)
        return torch.where(self.weights > 0, spread, 0.0)


@final
@dataclass(frozen=True, eq=False)
class Pool(AffineOperation):
    """Weighted sum over tokens: their mean, or one token alone."""

    weights: Tensor

    def linear(self, tangent: Tensor) -> Tensor:
        """sum_i w_i x_i."""
        return (self.weights.to(tangent)[:, None] * tangent).sum(-2)


@final
@dataclass(frozen=True, eq=False)
class Row(AffineOperation):
    """One token alone: [n, d] -> [1, d]."""

    index: int

    def linear(self, tangent: Tensor) -> Tensor:
        """x_i."""
        return tangent[..., self.index : self.index + 1, :]


@final
@dataclass(frozen=True, eq=False)
class Rotate(AffineOperation):
    """Rotary positions: x cos + rotated-half(x) sin, on [heads, n, width]."""

    cosine: Tensor
    sine: Tensor

    def linear(self, tangent: Tensor) -> Tensor:
        """Halves of the last axis turned against each other."""
        first, second = tangent.chunk(2, dim=-1)
        turned = torch.cat([-second, first], dim=-1)
        return tangent * self.cosine.to(tangent) + turned * self.sine.to(tangent)

    def absolute(self, half: Tensor) -> Tensor:
        """With absolute values of cosine and sine."""
        first, second = half.chunk(2, dim=-1)
        return half * self.cosine.abs() + torch.cat([second, first], dim=-1) * self.sine.abs()


@final
@dataclass(frozen=True, eq=False)
class Patches(AffineOperation):
    """Pixels [height * width, channels] -> patches as rows, [patches, channels * size * size], channels outermost."""

    shape: tuple[int, int, int]
    size: int

    def linear(self, tangent: Tensor) -> Tensor:
        """Cut an image into squares."""
        _, height, width = self.shape
        image = tangent.transpose(-1, -2).unflatten(-1, (height // self.size, self.size, width // self.size, self.size))
        ahead = image.dim() - 5
        order = (*range(ahead), ahead + 1, ahead + 3, ahead, ahead + 2, ahead + 4)
        return image.permute(order).flatten(-3).flatten(-3, -2)


@final
@dataclass(frozen=True, eq=False)
class PrependZero(AffineOperation):
    """A row of zeros in front, where a class token is added afterwards."""

    def linear(self, tangent: Tensor) -> Tensor:
        """[n, d] -> [n + 1, d]."""
        return torch.cat([torch.zeros_like(tangent[..., :1, :]), tangent], dim=-2)


@final
@dataclass(frozen=True, eq=False)
class Append(AffineOperation):
    """A constant behind the last entry along one axis, counted from the end."""

    tail: Tensor
    axis: int

    def linear(self, tangent: Tensor) -> Tensor:
        """Zeros there."""
        return self._behind(tangent, torch.zeros_like(self.tail))

    def value(self, *at: Tensor) -> Tensor:
        """The constant there."""
        return self._behind(at[0], self.tail)

    def _behind(self, given: Tensor, tail: Tensor) -> Tensor:
        ahead = given.shape[: given.dim() - tail.dim()]
        return torch.cat([given, tail.to(given).expand(*ahead, *tail.shape)], dim=self.axis)

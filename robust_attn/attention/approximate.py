"""Matrices as computed, many at a time, with upper values of what rounding may have done to their entries.

Every operation adds what it rounds itself to what its operands bring along. All matrices of a list share one error,
found from the largest of their entries, so that it costs little to follow: docs/proofs/rounding.md#tracked-errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from robust_attn.attention.rounding import UNIT


@dataclass(frozen=True, eq=False)
class Approximate:
    """A list of matrices in float64 for each head, and for each entry upper values over the list: its size as computed,
    and by how much the exact one differs.
    """

    value: Float[Tensor, "list heads rows columns"]
    largest: Float[Tensor, "heads rows columns"]
    error: Float[Tensor, "heads rows columns"]

    @classmethod
    def of(
        cls, value: Float[Tensor, "list heads rows columns"], error: Float[Tensor, "#heads #rows #columns"]
    ) -> Approximate:
        """Matrices known up to an error, their sizes read off."""
        largest = value.abs().amax(0)
        return cls(value, largest, error.expand_as(largest))

    def read_again(self) -> Approximate:
        """The same with sizes read off, which are smaller than those put together from sizes of operands."""
        return Approximate.of(self.value, self.error)

    def __matmul__(self, other: Approximate) -> Approximate:
        """Products of matrices: a sum of m terms errs by m units of the sum of their sizes."""
        size = self.largest @ other.largest
        brought = self.largest @ other.error + self.error @ (other.largest + other.error)
        return _rounded(self.value @ other.value, size, brought, self.value.shape[-1] + 5)

    def __add__(self, other: Approximate) -> Approximate:
        """Sums."""
        return _rounded(self.value + other.value, self.largest + other.largest, self.error + other.error)

    def __sub__(self, other: Approximate) -> Approximate:
        """Differences."""
        return _rounded(self.value - other.value, self.largest + other.largest, self.error + other.error)

    def __mul__(self, other: Approximate) -> Approximate:
        """Products entry by entry."""
        brought = self.largest * other.error + self.error * (other.largest + other.error)
        return _rounded(self.value * other.value, self.largest * other.largest, brought)

    def scaled(self, factor: float) -> Approximate:
        """Times a number."""
        return _rounded(self.value * factor, abs(factor) * self.largest, abs(factor) * self.error)

    def transposed(self) -> Approximate:
        """Rows as columns."""
        return Approximate(self.value.mT, self.largest.mT, self.error.mT)

    def with_zero(self) -> Approximate:
        """One more row, exactly zero."""
        return Approximate(*(functional.pad(field, (0, 0, 0, 1)) for field in (self.value, self.largest, self.error)))


def _rounded(value: Tensor, size: Tensor, brought: Tensor, roundings: int = 1) -> Approximate:
    """What an operation found: exact arithmetic on its operands gives entries of at most that size."""
    error = UNIT * roundings * size
    return Approximate(value, size + error, brought + error)


def sum_of(fields: Sequence[Approximate]) -> Approximate:
    """Of one or more."""
    return reduce(add, fields)


@dataclass(frozen=True, eq=False)
class ApproximateWeights:
    """Rows of attention, each of sum one; no weight is off by more than the part `error` of it."""

    value: Float[Tensor, "heads rows keys"]
    error: Float[Tensor, "heads"]

    def times(self, field: Approximate) -> Approximate:
        """P_ij z_ij."""
        part = self.error[:, None, None]
        brought = self.value * (field.error * (1 + part) + part * field.largest)
        return _rounded(self.value * field.value, self.value * field.largest, brought)

    def means(self, field: Approximate) -> Approximate:
        """The mean of each row under P, in every column of the row."""
        each = self.times(field)
        value = torch.einsum("hij,lhij->lhi", self.value, field.value)[..., None]
        largest, error = (sizes.sum(-1, keepdim=True).expand_as(sizes) for sizes in (each.largest, each.error))
        return _rounded(value.expand_as(field.value), largest, error, self.value.shape[-1] + 10)

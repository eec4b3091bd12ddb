"""Matrices as computed, each with an upper value of what rounding may have done to it, in the Frobenius norm.

Every operation adds what it rounds itself to what its operands bring along: docs/proofs/rounding.md#tracked-errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from robust_attn.attention.rounding import UNIT


@dataclass(frozen=True, eq=False)
class Approximate:
    """Matrices in float64; the exact ones differ by at most `error`, one number for each."""

    value: Float[Tensor, "*batch rows columns"]
    error: Float[Tensor, "*some"]

    @cached_property
    def size(self) -> Float[Tensor, "*batch"]:
        """The Frobenius norms of the matrices as computed."""
        return torch.linalg.vector_norm(self.value, dim=(-2, -1))

    def __matmul__(self, other: Approximate) -> Approximate:
        """Products of matrices: a sum of m terms errs by m units of the sum of their sizes."""
        inner = UNIT * (self.value.shape[-1] + 5) * self.size * other.size
        brought = self.size * other.error + self.error * other.size + self.error * other.error
        return Approximate(self.value @ other.value, inner + brought)

    def __add__(self, other: Approximate) -> Approximate:
        """Sums, rounded once."""
        value = self.value + other.value
        return Approximate(value, self.error + other.error + 2 * UNIT * (self.size + other.size))

    def __mul__(self, other: Approximate) -> Approximate:
        """Products entry by entry: what one brings along counts as often as the largest entry of the other."""
        tops = [one.value.abs().amax((-2, -1)) for one in (self, other)]
        brought = tops[0] * other.error + tops[1] * self.error + self.error * other.error
        return Approximate(self.value * other.value, brought + 2 * UNIT * tops[0] * other.size)

    def scaled(self, factor: float) -> Approximate:
        """Times a number."""
        return Approximate(self.value * factor, abs(factor) * (self.error + 2 * UNIT * self.size))

    def transposed(self) -> Approximate:
        """Rows as columns."""
        return Approximate(self.value.mT, self.error)

    def with_zero(self, axis: int) -> Approximate:
        """One more row (axis -2) or column (axis -1), exactly zero."""
        return Approximate(functional.pad(self.value, (0, 1) if axis == -1 else (0, 0, 0, 1)), self.error)


@dataclass(frozen=True, eq=False)
class ApproximateWeights:
    """Rows of attention, each of sum one; no weight is off by more than the part `error` of it."""

    value: Float[Tensor, "*batch rows keys"]
    error: Float[Tensor, "*some"]

    def times(self, field: Approximate) -> Approximate:
        """P_ij z_ij: no weight exceeds one."""
        part = self.error + 2 * UNIT
        return Approximate(self.value * field.value, (field.error + part * field.size) * (1 + part))

    def centred(self, field: Approximate) -> Approximate:
        """z_ij less the mean of its row under P, whose error counts in every column of the row."""
        length = self.value.shape[-1]
        part, root = self.error + UNIT * (length + 10), math.sqrt(length)
        value = field.value - (self.value * field.value).sum(-1, keepdim=True)
        return Approximate(value, (1 + root) * (field.error * (1 + part) + part * field.size))

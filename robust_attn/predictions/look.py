"""What a remainder bound may ask about the deviations that reach an operation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple

from torch import Tensor

Part = Literal["y", "s", "h", "e", "k", "c", "d"]


class Sizes(NamedTuple):
    """Upper values of one seminorm of a deviation d = y + s + h: two orders, the rest, a part k of it, a part c of k.

    Products of y with h - c, of s with s and h - k and of y, y with s and h - k are followed along the tape; a bound on
    the remainder has to cover those of y with c, of s with k, of h with h, and so on (`Operation.remainder`).
    """

    y: Tensor
    s: Tensor
    h: Tensor
    k: Tensor
    c: Tensor

    @property
    def e(self) -> Tensor:
        """Of all beyond the first order."""
        return self.s + self.h

    @property
    def d(self) -> Tensor:
        """Of the deviation itself."""
        return self.y + self.s + self.h

    def of(self, part: Part) -> Tensor:
        """One of them by name."""
        return getattr(self, part)


class Look(ABC):
    """Upper values for all perturbations in the ball at once."""

    @abstractmethod
    def ranges(self, slot: int) -> Sizes:
        """Of every entry's absolute value at input `slot` of the operation."""

    @abstractmethod
    def rows(self) -> Sizes:
        """Of the Euclidean norm along the last axis of row weights * deviation, at the first input."""

    @abstractmethod
    def norm(self, slot: int, weights: Tensor, part: Part) -> Tensor:
        """Of the Euclidean norm of weights * one part of the deviation; weights may come from other answers."""

    @abstractmethod
    def shape(self, slot: int) -> Sizes:
        """Roughly the ranges, for weights: nothing is promised."""

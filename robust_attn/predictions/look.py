"""What a remainder bound may ask about the deviations that reach an operation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple

from torch import Tensor

Part = Literal["y", "e", "c", "d"]


class Sizes(NamedTuple):
    """Upper values of one seminorm of a deviation d = y + e: first-order part y, rest e, and a part c of the rest.

    Products of y with e - c are followed along the tape; a remainder bound has to cover products of y with c, and of e
    with e.
    """

    y: Tensor
    e: Tensor
    c: Tensor

    @property
    def d(self) -> Tensor:
        """Of the deviation y + e itself."""
        return self.y + self.e

    def of(self, part: Part) -> Tensor:
        """One of them by name."""
        return self.d if part == "d" else getattr(self, part)


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

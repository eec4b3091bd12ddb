"""Who may attend to whom."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class Mask(StrEnum):
    """NONE: everybody sees everybody. CAUSAL: an atom sees those whose position is not later than its own.

    Padding is not a kind of mask here: a padded token is an atom of mass zero, which nobody sees under either mask.
    """

    NONE = "none"
    CAUSAL = "causal"

    @property
    def reach(self) -> tuple[float, float]:
        """How many positions back and ahead of its own an atom sees."""
        return (math.inf, math.inf if self is Mask.NONE else 0.0)

    def hides(self, rows: Int[Tensor, "*batch rows 1"], columns: Int[Tensor, "*batch 1 n"]) -> Tensor | None:
        """Which positions `columns` an atom at each of the positions `rows` does not see; None if it sees all."""
        return None if self is Mask.NONE else columns > rows


@final
@dataclass(frozen=True)
class Window:
    """A sliding window: an atom at position p sees the positions from p - before to p + after, so always its own.

    Copies of a token share its position, so they see each other, and whoever sees one sees all.
    """

    before: int
    after: int = 0

    def __post_init__(self) -> None:
        if self.before < 0 or self.after < 0:
            raise ValueError(f"a window reaches 0 or more positions to either side, got {self}")

    @property
    def reach(self) -> tuple[float, float]:
        """How many positions back and ahead of its own an atom sees."""
        return (float(self.before), float(self.after))

    def __str__(self) -> str:
        return f"window {self.before} before, {self.after} after"

    def hides(self, rows: Int[Tensor, "*batch rows 1"], columns: Int[Tensor, "*batch 1 n"]) -> Tensor:
        """Everything outside the window."""
        return (columns < rows - self.before) | (columns > rows + self.after)


Visibility = Mask | Window
"""Every kind of mask that a layer may have. Bounds that are stated for one kind name it; the others hold for all."""


def visible(
    mask: Visibility, positions: Int[Tensor, "*batch n"], masses: Float[Tensor, "*batch n"], rows: slice = slice(None)
) -> Bool[Tensor, "*batch _ n"]:
    """Entry (i, j) says whether row i attends to atom j; copies of a token share its position and see each other."""
    seen = (masses > 0)[..., None, :]
    row_positions = positions[..., rows, None]
    hidden = mask.hides(row_positions, positions[..., None, :])
    if hidden is None:
        return seen.expand(*row_positions.shape[:-1], positions.shape[-1])
    return seen & ~hidden


def log_weight(
    mask: Visibility, positions: Int[Tensor, "*batch n"], masses: Float[Tensor, "*batch n"], rows: slice = slice(None)
) -> Float[Tensor, "*batch _ n"]:
    """log m_j where atom j is visible to row i, minus infinity elsewhere: what is added to the logits."""
    logs = masses.log()[..., None, :]
    hidden = mask.hides(positions[..., rows, None], positions[..., None, :])
    return logs if hidden is None else logs.expand(hidden.shape).masked_fill(hidden, -torch.inf)

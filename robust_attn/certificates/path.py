"""A path from the tokens to the edge of the ball, part by part: what is known of derivatives on each, put together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from itertools import pairwise

from robust_attn.budget import Budget

PATH = (0.25, 0.5, 0.75, 1.0)
FINE_PATH = tuple(step / 8 for step in range(1, 9))


def along_path(budget: Budget, parts: Sequence[float] = PATH) -> list[Budget]:
    """The budgets that a path leaves one after another."""
    return [replace(budget, radius=part * budget.radius) for part in parts]


def path_mean(values: Sequence[float], order: int) -> float:
    """An upper value of the integral of (1 - t)^{order - 1} / (order - 1)! v(t) over [0, 1].

    `values` are upper values of v up to each part of PATH (docs/proofs/local.md#path).
    """
    shares = [((1 - start) ** order - (1 - end) ** order) for start, end in pairwise((0.0, *PATH))]
    return sum(share * value for share, value in zip(shares, values, strict=True)) / math.factorial(order)


@dataclass(frozen=True)
class Part:
    """A part of the path t -> X + t d, 0 <= t <= 1: where it ends, and what no derivative by t exceeds on it."""

    end: float
    slope: float
    curvature: float
    third: float


def change_along(parts: Sequence[Part], *, slope: float, curvature: float) -> float:
    """An upper value of the change over the whole path, `slope` and `curvature` those of its first and second
    derivative at the tokens.

    A derivative is at most what it was where the part began and what the next one adds, and at most what is known of it
    on the part (docs/proofs/local.md#path). Not a number if one of them is not.
    """
    if any(math.isnan(value) for value in (slope, curvature, *(each for part in parts for each in astuple(part)))):
        return math.nan
    start = change = 0.0
    for part in parts:
        step = part.end - start
        steeper = min(curvature * step + part.third * step**2 / 2, part.curvature * step)
        beyond = min(curvature * step**2 / 2 + part.third * step**3 / 6, part.curvature * step**2 / 2)
        change += min(slope * step + beyond, part.slope * step)
        slope = min(slope + steeper, part.slope)
        curvature = min(curvature + part.third * step, part.curvature)
        start = part.end
    return change

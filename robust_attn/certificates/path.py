"""A path from the tokens to the edge of the ball, part by part: what is known of derivatives on each, put together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
    """A part of the path t -> X + t d, 0 <= t <= 1: where it ends, and what derivatives by t do not exceed on it.

    `limits` are those of the first derivative, the second and so on.
    """

    end: float
    limits: tuple[float, ...]


def change_along(parts: Sequence[Part], known: Sequence[float]) -> float:
    """An upper value of the change over the whole path, `known` those of the derivatives at the tokens, from the first
    to the last but one of those that the parts have limits for.

    A derivative is at most what those known where the part began make it, up to an order whose limit takes over, and at
    most its own limit (docs/proofs/local.md#path). Not a number if one of them is not.
    """
    if any(math.isnan(value) for value in (*known, *(each for part in parts for each in part.limits))):
        return math.nan
    start = change = 0.0
    for part in parts:
        step = part.end - start
        change += _at_most((0.0, *known), (math.inf, *part.limits), step)
        known = [_at_most(known[order:], part.limits[order:], step) for order in range(len(known))]
        start = part.end
    return change


def _at_most(known: Sequence[float], limits: Sequence[float], step: float) -> float:
    """What a derivative does not exceed after a step: `known` are it and the next ones where the step began, `limits`
    theirs along it, and of one more.
    """
    best, taylor, power = limits[0], 0.0, 1.0
    for order, (value, limit) in enumerate(zip(known, limits[1:], strict=True), start=1):
        taylor += value * power
        power *= step / order
        best = min(best, taylor + limit * power)
    return best

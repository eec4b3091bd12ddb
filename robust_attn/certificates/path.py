"""Parts of the radius at which a path from the tokens to the edge of the ball is looked at, and their shares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from robust_attn.budget import Budget

PATH = (0.25, 0.5, 0.75, 1.0)
FINE_PATH = tuple(step / 8 for step in range(1, 9))


def along_path(budget: Budget, parts: Sequence[float] = PATH) -> list[Budget]:
    """The budgets that a path leaves one after another."""
    return [replace(budget, radius=part * budget.radius) for part in parts]


def path_mean(values: Sequence[float], order: int, parts: Sequence[float] = PATH) -> float:
    """An upper value of the integral of (1 - t)^{order - 1} / (order - 1)! v(t) over [0, 1].

    `values` are upper values of v up to each part of the path (docs/proofs/local.md#path).
    """
    starts = (0.0, *parts[:-1])
    shares = [((1 - start) ** order - (1 - end) ** order) for start, end in zip(starts, parts, strict=True)]
    return sum(share * value for share, value in zip(shares, values, strict=True)) / math.factorial(order)

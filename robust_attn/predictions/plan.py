"""Plans: sizes of everything beyond the second order, guessed from one sketch and proved by another.

A remainder's ellipsoid depends on sizes of the deviations before it, which themselves come from remainders. So sizes
are written down first (a plan) and ellipsoids are built from what is written; then fresh samples, independent of the
plan, must show that every size holds. By induction along the tape the deviations are then where the plan says
(docs/proofs/predictions.md#plan).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(eq=False)
class Plan:
    """Sizes in the order in which they are asked for, half axes by node, and what is chosen block by block.

    `slack`: how much larger planned norms are than guessed ones. `follow`: whether products of the first order with the
    rest are followed along the tape, or left to the remainders. `parts`: by block the squared weights of s, z and x
    when they are added; `merges`: the squared weight of w beside x.
    """

    radius: float
    follow: bool
    slack: float = 1.0
    sizes: list[Tensor] = field(default_factory=list)
    axes: dict[int, Tensor] = field(default_factory=dict)
    parts: dict[int, tuple[float, float, float]] = field(default_factory=dict)
    merges: dict[int, float] = field(default_factory=dict)

    @property
    def is_finite(self) -> bool:
        """Whether every number written is one."""
        return all(bool(each.isfinite().all()) for each in (*self.sizes, *self.axes.values()))


@dataclass(frozen=True, eq=False)
class Margins:
    """Sizes of the margins' deviations: first, second and higher order; and how well a plan was confirmed."""

    first: Tensor
    second: Tensor
    rest: Tensor
    worst: float

    @property
    def total(self) -> Tensor:
        """At least the change of every margin."""
        return self.first + self.second + self.rest


def rms(tangents: Tensor | None) -> float:
    """Root mean square over samples of the Euclidean norm; 0 where there is nothing."""
    return 0.0 if tangents is None else math.sqrt(float(tangents.double().square().sum()) / len(tangents))


def shares(*sizes: float, least: float) -> tuple[float, ...]:
    """Numbers that add up to 1, in proportion to the sizes but none below `least` (before normalising)."""
    total = sum(sizes)
    if not 0 < total < math.inf:
        return tuple(1 / len(sizes) for _ in sizes)
    lifted = [max(size / total, least) for size in sizes]
    return tuple(each / sum(lifted) for each in lifted)


NOTHING = torch.zeros((), dtype=torch.float64)

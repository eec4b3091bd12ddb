"""Plans: sizes of everything that remainders cause, guessed from one sketch and proved by another.

A remainder's ellipsoid depends on sizes of the deviations before it, which themselves come from remainders. So sizes
are written down first (a plan) and ellipsoids are built from what is written; then fresh samples, independent of the
plan, must show that every size holds. By induction along the tape the deviations are then where the plan says
(docs/proofs/predictions.md#plan).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from robust_attn.predictions.look import Part

Kind = Part | Literal["z", "w", "v"]
"""Of planned sizes: norms by part, ranges of what remainders cause alone and in products with one and two orders."""
Slack = Mapping[Kind, float]
SLACK: Slack = {
    "y": 1.26, "s": 1.3, "h": 1.32, "e": 1.25, "k": 1.4, "c": 1.45, "d": 1.25, "z": 1.72, "w": 1.75, "v": 2.0
}  # fmt: skip
"""How much larger planned sizes are than guessed ones: there are many ranges, and all must be confirmed."""


class HopelessPlanError(Exception):
    """Remainders grow beyond what any perturbation of that radius would do to first order."""


@dataclass(eq=False)
class Plan:
    """Sizes in the order in which they are asked for; half axes and their shares in sums of ellipsoids, by node.

    `slack`: how much larger planned sizes are than guessed ones. `follow`: whether the third order and products of the
    first order with what remainders caused are followed along the tape, or left to the remainders.
    """

    radius: float
    follow: bool
    slack: Mapping[Kind, float] = field(default_factory=lambda: SLACK)
    sizes: list[Tensor] = field(default_factory=list)
    axes: dict[int, Tensor] = field(default_factory=dict)
    masses: dict[int, float] = field(default_factory=dict)

    @property
    def is_finite(self) -> bool:
        """Whether every number written is one."""
        return all(bool(each.isfinite().all()) for each in (*self.sizes, *self.axes.values()))


@dataclass(frozen=True, eq=False)
class Margins:
    """Sizes of the margins' deviations: by order, and of what remainders cause; and how well a plan was confirmed.

    `ratios`: by kind, the largest ratio of a fresh size to the planned one; empty where nothing was compared.
    """

    orders: tuple[Tensor, ...]
    rest: Tensor
    ratios: Mapping[Kind, float]

    @property
    def worst(self) -> float:
        """The plan holds if this is at most 1."""
        return max(self.ratios.values(), default=math.inf)

    @property
    def total(self) -> Tensor:
        """At least the change of every margin."""
        return sum(self.orders, self.rest)


NOTHING = torch.zeros((), dtype=torch.float64)

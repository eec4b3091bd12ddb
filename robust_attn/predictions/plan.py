"""Plans: sizes of everything that remainders cause, guessed from one sketch and proved by another.

A remainder's ellipsoid depends on sizes of the deviations before it, which themselves come from remainders. So sizes
are written down first (a plan) and ellipsoids are built from what is written; then fresh samples, independent of the
plan, must show that every size holds. By induction along the tape the deviations are then where the plan says
(docs/proofs/predictions.md#plan).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(eq=False)
class Plan:
    """Sizes in the order in which they are asked for; half axes and their shares in sums of ellipsoids, by node.

    `slack`: how much larger planned norms are than guessed ones. `follow`: whether the third order and products of the
    first order with what remainders caused are followed along the tape, or left to the remainders.
    """

    radius: float
    follow: bool
    slack: float = 1.0
    sizes: list[Tensor] = field(default_factory=list)
    axes: dict[int, Tensor] = field(default_factory=dict)
    masses: dict[int, float] = field(default_factory=dict)

    @property
    def is_finite(self) -> bool:
        """Whether every number written is one."""
        return all(bool(each.isfinite().all()) for each in (*self.sizes, *self.axes.values()))


@dataclass(frozen=True, eq=False)
class Margins:
    """Sizes of the margins' deviations: by order, and of what remainders cause; and how well a plan was confirmed."""

    orders: tuple[Tensor, ...]
    rest: Tensor
    worst: float

    @property
    def total(self) -> Tensor:
        """At least the change of every margin."""
        return sum(self.orders, self.rest)


NOTHING = torch.zeros((), dtype=torch.float64)

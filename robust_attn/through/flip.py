"""The smallest radius at which an attack flips a prediction, by bisection."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from robust_attn.through.victim import Perturbed

LEAP = 2.0
SMALLEST = 2.0**-24
"""Of the first radius: below it a prediction is taken to flip without any perturbation to speak of."""

FlipAt = Callable[[float, Perturbed | None], Perturbed | None]
"""A flipped input with a budget of that radius, or None; the second argument is one found with a larger radius."""


@dataclass(frozen=True, eq=False)
class Flip:
    """The attack flips the prediction at `radius` and did not at radius / (1 + accuracy); None where it never did."""

    found: Perturbed | None
    tried: int

    @property
    def radius(self) -> float | None:
        """Of the budget in which the flipped input is."""
        return None if self.found is None else self.found.radius


def smallest_flip(
    flip_at: FlipAt, *, start: float, largest: float, accuracy: float, known: Perturbed | None = None
) -> Flip:
    """Leaps from `start` until both sides are known, then bisection of the logarithm.

    An attack may fail at a radius above one where it succeeds; the radius returned is one where it did succeed. Where
    a flip is `known` already, the search begins below it, and never ends above it.
    """
    found, failed, tried = known, 0.0, 0
    radius = min(start, largest) if known is None else known.radius / LEAP
    while found is None or (failed == 0.0 and found.radius > start * SMALLEST):
        attempt = flip_at(radius, found)
        tried += 1
        if attempt is None:
            failed = radius
        else:
            found = attempt
        if attempt is None and radius >= largest:
            return Flip(None, tried)
        radius = min(radius * LEAP, largest) if found is None else found.radius / LEAP
    while failed > 0 and found.radius > failed * (1 + accuracy):
        radius = math.sqrt(failed * found.radius)
        attempt = flip_at(radius, found)
        tried += 1
        if attempt is None:
            failed = radius
        else:
            found = attempt
    return Flip(found, tried)

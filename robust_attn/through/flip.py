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

    def next_radius() -> float | None:
        """The radius to try with what is known by now, None where nothing is left to learn."""
        if found is None:
            return None if failed >= largest else min(failed * LEAP if failed > 0 else start, largest)
        if failed == 0:
            return found.radius / LEAP if found.radius > start * SMALLEST else None
        return math.sqrt(failed * found.radius) if found.radius > failed * (1 + accuracy) else None

    while (radius := next_radius()) is not None:
        attempt = flip_at(radius, found)
        tried += 1
        if attempt is None:
            failed = radius
        else:
            # Drawn nearer than a radius where the attack had failed: that failure says nothing any more.
            found, failed = attempt, failed if failed < attempt.radius else 0.0
    return Flip(found, tried)

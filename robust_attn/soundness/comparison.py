"""What was observed beside what was promised."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from robust_attn.bounds.bound import Bound
from robust_attn.types import Scope, Side

CERTIFICATE = "certificate"
CONSTANT_ROUNDING = 1e-6
"""Relative room for rounding where a local constant attained by Lanczos is compared with one in closed form."""
NOT_OBSERVED = "the observed output change is not a finite number, or not known to be in the budget"
NOT_CERTIFIED = "the certificate is not a finite number"
NOT_FINITE = "a weight, or a product of weights, is not a finite number"
NOT_JUDGED = "rounding is too large beside the certificate"


@dataclass(frozen=True)
class Comparison:
    """What was observed beside what a bound allows. `rounding` is what float arithmetic may have added.

    Where it is `exact`, `observed` is not above the exact value, and there is no rounding.
    """

    bound: str
    sample: int
    observed: float
    rounding: float
    allowed: float
    exact: bool = False

    @property
    def violated(self) -> bool:
        """By the rule of every verdict."""
        return self.observed - self.rounding > self.allowed

    @property
    def approach(self) -> float:
        """Observed over allowed without what may be rounding; 1 would be exact."""
        above = max(self.observed - self.rounding, 0.0)
        return above / self.allowed if self.allowed > 0 else math.inf if above > 0 else 0.0


@dataclass(frozen=True)
class Checked:
    """Every comparison of a case, and for every sample about which nothing can be said the reason."""

    comparisons: tuple[Comparison, ...]
    unknown: tuple[str, ...] = ()

    @property
    def violations(self) -> tuple[Comparison, ...]:
        """Those that must not be."""
        return tuple(comparison for comparison in self.comparisons if comparison.violated)

    @property
    def exact(self) -> int:
        """How many comparisons exact arithmetic decided."""
        return sum(comparison.exact for comparison in self.comparisons)


def together(parts: Iterable[Checked]) -> Checked:
    """Several samples as one."""
    parts = tuple(parts)
    comparisons = tuple(comparison for part in parts for comparison in part.comparisons)
    return Checked(comparisons, tuple(reason for part in parts for reason in part.unknown))


def speaks(bound: Bound) -> bool:
    """Whether a bound promises something about every perturbation in its budget."""
    usable = bound.applies and bound.side is Side.UPPER and not bound.comparator and bound.scope is not Scope.LOCAL
    return usable and not math.isnan(bound.output_change)

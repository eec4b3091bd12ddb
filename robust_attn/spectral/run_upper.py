"""An upper value from what a Golub-Kahan run has seen: docs/proofs/spectral.md#upper-value-from-the-run.

Let z be the singular vector of the largest value sigma, and b_1 its component in the start. The recurrence determines
the components of z along all later vectors as multiples q_j(sigma) of b_1, and their squares sum to at most one. Where
q grows beyond 1/|b_1| there is no sigma. That |b_1| is too small for this has a probability that depends on the start
alone: so the value holds for every number of steps at once, however that was chosen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext

DIGITS = 60
"""Of the recurrence: it is one of differences, and grows by thirty orders of magnitude."""
ABOVE = Decimal(1) + Decimal(10) ** -12
"""So far above the largest value of the run, as rounded, the recurrence is one of positive numbers that grow."""
EXHAUSTED = 1e-10
"""Entries below this part of the largest before them count as zero: what rounding left of a space that has ended."""
ROUNDED_OFF = 1e-13
"""Taken off a start's component, because rounding may: some units of it in each of a hundred steps."""
HALVINGS = 30
DOUBLINGS = 60


def smallest_start(dimension: int, failure_probability: float) -> float:
    """Below this is the component of a uniform start in a fixed direction with at most that probability.

    Less what rounding may take from it; zero, which shows nothing, where that is all of it.
    """
    return max(failure_probability * math.sqrt(math.pi / (2 * dimension)) - ROUNDED_OFF, 0.0)


def excluded(alphas: Sequence[float], betas: Sequence[float], value: Decimal, smallest: float) -> bool:
    """Whether no largest singular value can be `value` or more, from a start with a component of at least `smallest`.

    `value` must not be below the largest singular value of the bidiagonal matrix. The recurrence ends where a space was
    exhausted: what follows has another start.
    """
    limit = 1 / Decimal(smallest) ** 2
    before, right, left, total = Decimal(0), Decimal(1), Decimal(0), Decimal(1)
    largest = Decimal(0)
    for alpha, beta in zip(map(Decimal, alphas), map(Decimal, betas), strict=True):
        largest = max(largest, alpha, beta)
        if min(alpha, beta) <= Decimal(EXHAUSTED) * largest:
            return False
        left = (value * right - before * left) / alpha
        right, before = (value * left - alpha * right) / beta, beta
        total += right * right
        if total > limit:
            return True
    return False


def run_upper(alphas: Sequence[float], betas: Sequence[float], lower: float, smallest: float) -> float:
    """The smallest value found to be excluded, by halving; infinity if there is none, or nothing is known."""
    if not (math.isfinite(lower) and lower > 0 and smallest > 0 and all(map(math.isfinite, (*alphas, *betas)))):
        return math.inf
    with localcontext() as context:
        context.prec = DIGITS
        low = Decimal(lower) * ABOVE
        high = low
        for _ in range(DOUBLINGS):
            if excluded(alphas, betas, high, smallest):
                break
            low, high = high, high * 2
        else:
            return math.inf
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if excluded(alphas, betas, middle, smallest) else (middle, high)
        return math.nextafter(float(high), math.inf)


def run_excludes(alphas: Sequence[float], betas: Sequence[float], lower: float, value: float, smallest: float) -> bool:
    """Whether `value` is an upper value by the run: one look where `run_upper` takes many."""
    known = math.isfinite(lower) and lower > 0 and math.isfinite(value) and smallest > 0
    if not known or not all(map(math.isfinite, (*alphas, *betas))):
        return False
    with localcontext() as context:
        context.prec = DIGITS
        return Decimal(value) >= Decimal(lower) * ABOVE and excluded(alphas, betas, Decimal(value), smallest)

"""Bounds beyond the second order, for samples at which they can be worth their time."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.bounds.ball import BallNorms, higher_norms
from robust_attn.bounds.bound import Bound, from_output_change, not_applicable
from robust_attn.bounds.rows import KnownRows
from robust_attn.budget import Budget
from robust_attn.certificates import followed
from robust_attn.certificates.followed import Following
from robust_attn.certificates.path import FINE_PATH, PATH, Part, along_path, change_along
from robust_attn.certificates.sampled_orders import FIVE, PAIR, Choices, SampledOrders
from robust_attn.spectral.lanczos import LipschitzEstimate, fresh_seed
from robust_attn.spectral.norms import HeadNorms
from robust_attn.types import Scope

THIRD_ORDER, SIXTH_ORDER = "local.third_order", "local.sixth_order"
WORTH, WORTH_MORE = 1.05, 1.3
"""A certificate within this factor of the derivative alone is not sought to be improved: by more orders at all, by the
sixth, which takes seconds."""
HOPE = 0.99
"""Derivatives are sampled where the bound would be smaller than the others by this factor without them."""
GOOD_ENOUGH = "the second order is nearly as good as any can be"
ROUNDED = "rounding is not small here"


@dataclass(frozen=True, eq=False)
class Orders:
    """Which bounds are asked for beyond the second order, and what of: a batch, its budget, its local constants.

    `path` are the norms on the balls of PATH.
    """

    layer: AttentionLayer
    norms: HeadNorms
    measure: TokenMeasure
    budget: Budget
    lipschitz: LipschitzEstimate
    path: Sequence[BallNorms]
    sampled: SampledOrders | None
    following: Following | None
    known: KnownRows | None

    def first_order(self, sample: int) -> float:
        """What the derivative at the tokens alone allows."""
        return float(self.lipschitz.upper[sample]) * self.eps(sample)

    def eps(self, sample: int) -> float:
        """The length of a displacement at the edge of the budget."""
        return self.budget.hilbert_radius(self.measure.sample(sample))

    def worth_it(self, sample: int, others: Sequence[Bound], factor: float) -> bool:
        """Whether the smallest of the other bounds is above the first order by more than a factor."""
        return smallest(others) > factor * self.first_order(sample)


def smallest(bounds: Sequence[Bound]) -> float:
    """What the smallest that may certify says; not a number if there is none."""
    return min((bound.output_change for bound in bounds if bound.certifies), default=math.nan)


def higher_orders(
    asked: Orders, found: Sequence[tuple[Bound, ...]], *, doubtful: bool
) -> tuple[tuple[Bound, ...], ...]:
    """The bounds of every sample, with those that are asked for. Nothing is computed where rounding is not small."""
    if asked.sampled is not None:
        by_samples = _BySamples(asked, asked.sampled, doubtful)
        found = by_samples.beside(by_samples.beside(found, THIRD), SIXTH)
    if asked.following is not None:
        share = asked.following.failure_probability / len(found)
        following = replace(asked.following, failure_probability=share)
        found = [(*others, _fourth(asked, following, index, others, doubtful)) for index, others in enumerate(found)]
    return tuple(found)


@dataclass(frozen=True)
class _Sampled:
    """A bound of which all orders but the last are those at the tokens, known by samples.

    It is asked for where the others are above the first order by the factor `worth`.
    """

    name: str
    orders: tuple[int, ...]
    choices: Choices
    worth: float

    @property
    def good_enough(self) -> str:
        """Why it is left out where it is not worth its time."""
        return f"the other bounds are within {self.worth} times the first order"


THIRD = _Sampled(THIRD_ORDER, (3,), PAIR, WORTH)
SIXTH = _Sampled(SIXTH_ORDER, (3, 4, 5, 6), FIVE, WORTH_MORE)


@dataclass(frozen=True, eq=False)
class _BySamples:
    """Bounds whose derivatives at the tokens are sampled; none where it is `doubtful` because rounding is not small."""

    asked: Orders
    sampled: SampledOrders
    doubtful: bool

    def beside(self, found: Sequence[tuple[Bound, ...]], bound: _Sampled) -> list[tuple[Bound, ...]]:
        """The bounds found of every sample, and this one."""
        refusal = self.sampled.refusal(bound.choices) or (ROUNDED if self.doubtful else None)
        worth = [
            refusal is None and self.asked.worth_it(index, others, bound.worth) for index, others in enumerate(found)
        ]
        parts = _parts(self.asked, bound.orders) if any(worth) else None
        return [
            (*others, self._along(parts[index], index, bound, smallest(others)))
            if parts is not None and worth[index]
            else (*others, not_applicable(bound.name, refusal or bound.good_enough, Scope.BALL))
            for index, others in enumerate(found)
        ]

    def _along(self, parts: Sequence[Part], sample: int, bound: _Sampled, others: float) -> Bound:
        """All orders along the path, each no more than what is known of it (docs/proofs/local.md#third-order)."""
        first, eps, last = self.asked.first_order(sample), self.asked.eps(sample), bound.orders[-1]
        if not change_along(parts, [first, *[0.0] * (last - 2)]) < HOPE * others:
            return not_applicable(bound.name, "the bound on its last derivative is too large to help", Scope.BALL)
        uppers = (self.sampled.second(sample),) if last == 3 else self.sampled.up_to_fifth(sample)
        if not all(map(math.isfinite, uppers)):
            return not_applicable(bound.name, "a derivative at the tokens is not a number here", Scope.BALL)
        change = change_along(parts, [first, *(eps**order * upper for order, upper in enumerate(uppers, start=2))])
        chance = self.asked.lipschitz.failure_probability + self.sampled.pairs.failure_probability
        radius = self.asked.budget.radius
        return from_output_change(bound.name, change, radius, Scope.BALL, failure_probability=chance)


def _parts(asked: Orders, orders: Sequence[int]) -> list[list[Part]]:
    """Of every sample the parts of FINE_PATH, with slopes and curvatures of the ball of PATH that each is in."""
    budgets = along_path(asked.budget, FINE_PATH)
    higher = higher_norms(asked.layer, asked.norms, asked.measure, budgets, orders, known=asked.known)
    balls = [asked.path[bisect_left(PATH, end)] for end in FINE_PATH]

    def of(sample: int) -> list[Part]:
        eps = asked.eps(sample)
        return [
            Part(
                end,
                (
                    eps * float(ball.closed_form[sample]),
                    eps * eps * float(ball.curvature[sample]),
                    *(float(size[sample]) / end**order for order, size in zip(orders, sizes, strict=True)),
                ),
            )
            for end, ball, sizes in zip(FINE_PATH, balls, higher, strict=True)
        ]

    return [of(sample) for sample in range(len(asked.measure.points))]


def _fourth(asked: Orders, following: Following, sample: int, others: Sequence[Bound], doubtful: bool) -> Bound:
    if doubtful:
        return not_applicable(followed.NAME, ROUNDED, Scope.BALL)
    if not asked.worth_it(sample, others, WORTH):
        return not_applicable(followed.NAME, GOOD_ENOUGH, Scope.BALL)
    estimate = asked.lipschitz
    seed = fresh_seed() if estimate.seed is None else estimate.seed
    batch = estimate.failure_probability + following.failure_probability * (len(asked.measure.points) - 1)
    first = followed.FirstOrder(float(estimate.upper[sample]), batch, seed)
    return followed.fourth_order(
        asked.layer, asked.measure.sample(sample), asked.budget, first, following, sample=sample
    )

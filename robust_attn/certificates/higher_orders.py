"""Bounds beyond the second order, for samples at which they can be worth their time."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.bounds.ball import BallNorms, third_norms
from robust_attn.bounds.bound import Bound, from_output_change, not_applicable
from robust_attn.bounds.rows import KnownRows
from robust_attn.budget import Budget
from robust_attn.certificates import followed
from robust_attn.certificates.followed import Following
from robust_attn.certificates.path import FINE_PATH, PATH, Part, along_path, change_along
from robust_attn.certificates.second_constant import SecondConstants
from robust_attn.spectral.lanczos import LipschitzEstimate, fresh_seed
from robust_attn.spectral.norms import HeadNorms
from robust_attn.types import Scope

THIRD_ORDER = "local.third_order"
WORTH = 1.05
"""A certificate within this factor of the derivative alone is not sought to be improved."""
HOPE = 0.99
"""The second derivative is sampled where the bound would be smaller than the others by this factor without it."""
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
    second: SecondConstants | None
    following: Following | None
    known: KnownRows | None

    def first_order(self, sample: int) -> float:
        """What the derivative at the tokens alone allows."""
        return float(self.lipschitz.upper[sample]) * self.eps(sample)

    def eps(self, sample: int) -> float:
        """The length of a displacement at the edge of the budget."""
        return self.budget.hilbert_radius(self.measure.sample(sample))

    def worth_it(self, sample: int, others: Sequence[Bound]) -> bool:
        """Whether the smallest of the other bounds is well above the first order."""
        return smallest(others) > WORTH * self.first_order(sample)


def smallest(bounds: Sequence[Bound]) -> float:
    """What the smallest that may certify says; not a number if there is none."""
    return min((bound.output_change for bound in bounds if bound.certifies), default=math.nan)


def higher_orders(
    asked: Orders, found: Sequence[tuple[Bound, ...]], *, doubtful: bool
) -> tuple[tuple[Bound, ...], ...]:
    """The bounds of every sample, with those that are asked for. Nothing is computed where rounding is not small."""
    if asked.second is not None:
        found = _with_third(asked, asked.second, found, doubtful=doubtful)
    if asked.following is not None:
        share = asked.following.failure_probability / len(found)
        following = replace(asked.following, failure_probability=share)
        found = [(*others, _fourth(asked, following, index, others, doubtful)) for index, others in enumerate(found)]
    return tuple(found)


def _with_third(
    asked: Orders, second: SecondConstants, found: Sequence[tuple[Bound, ...]], *, doubtful: bool
) -> list[tuple[Bound, ...]]:
    refusal = second.refusal() or (ROUNDED if doubtful else None)
    worth = [refusal is None and asked.worth_it(index, others) for index, others in enumerate(found)]
    parts = _parts(asked) if any(worth) else None
    return [
        (*others, _third(asked, second, index, others, parts[index]))
        if parts is not None and worth[index]
        else (*others, not_applicable(THIRD_ORDER, refusal or GOOD_ENOUGH, Scope.BALL))
        for index, others in enumerate(found)
    ]


def _parts(asked: Orders) -> list[list[Part]]:
    """Of every sample the parts of FINE_PATH, with slopes and curvatures of the ball of PATH that each is in."""
    budgets = along_path(asked.budget, FINE_PATH)
    thirds = third_norms(asked.layer, asked.norms, asked.measure, budgets, known=asked.known)
    balls = [asked.path[bisect_left(PATH, end)] for end in FINE_PATH]

    def of(sample: int) -> list[Part]:
        eps = asked.eps(sample)
        return [
            Part(
                end,
                slope=eps * float(ball.closed_form[sample]),
                curvature=eps * eps * float(ball.curvature[sample]),
                third=float(third[sample]) / end**3,
            )
            for end, ball, third in zip(FINE_PATH, balls, thirds, strict=True)
        ]

    return [of(sample) for sample in range(len(asked.measure.points))]


def _third(
    asked: Orders, second: SecondConstants, sample: int, others: Sequence[Bound], parts: Sequence[Part]
) -> Bound:
    """Three orders along the path, each no more than what is known of it (docs/proofs/local.md#third-order)."""
    slope = asked.first_order(sample)
    if not change_along(parts, slope=slope, curvature=0.0) < HOPE * smallest(others):
        return not_applicable(THIRD_ORDER, "the bound on the third derivative is too large to help", Scope.BALL)
    curved = second.upper(sample)
    if not math.isfinite(curved):
        return not_applicable(THIRD_ORDER, "the second derivative is not a number here", Scope.BALL)
    change = change_along(parts, slope=slope, curvature=asked.eps(sample) ** 2 * curved)
    chance = asked.lipschitz.failure_probability + second.pairs.failure_probability
    return from_output_change(THIRD_ORDER, change, asked.budget.radius, Scope.BALL, failure_probability=chance)


def _fourth(asked: Orders, following: Following, sample: int, others: Sequence[Bound], doubtful: bool) -> Bound:
    if doubtful:
        return not_applicable(followed.NAME, ROUNDED, Scope.BALL)
    if not asked.worth_it(sample, others):
        return not_applicable(followed.NAME, GOOD_ENOUGH, Scope.BALL)
    estimate = asked.lipschitz
    seed = fresh_seed() if estimate.seed is None else estimate.seed
    batch = estimate.failure_probability + following.failure_probability * (len(asked.measure.points) - 1)
    first = followed.FirstOrder(float(estimate.upper[sample]), batch, seed)
    return followed.fourth_order(
        asked.layer, asked.measure.sample(sample), asked.budget, first, following, sample=sample
    )

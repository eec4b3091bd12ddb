"""Bounds beyond the second order, for samples at which they can be worth their time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.bounds.ball import third_norms
from robust_attn.bounds.bound import Bound, from_output_change, not_applicable
from robust_attn.bounds.rows import KnownRows
from robust_attn.budget import Budget
from robust_attn.certificates import followed
from robust_attn.certificates.followed import Following
from robust_attn.certificates.path import FINE_PATH, along_path, path_mean
from robust_attn.certificates.second_constant import SecondConstants
from robust_attn.spectral.lanczos import LipschitzEstimate, fresh_seed
from robust_attn.spectral.norms import HeadNorms
from robust_attn.types import Scope

THIRD_ORDER = "local.third_order"
WORTH = 1.05
"""A certificate within this factor of the derivative alone is not sought to be improved."""
GOOD_ENOUGH = "the second order is nearly as good as any can be"
ROUNDED = "rounding is not small here"


@dataclass(frozen=True, eq=False)
class Orders:
    """Which bounds are asked for beyond the second order, and what of: a batch, its budget, its local constants."""

    layer: AttentionLayer
    norms: HeadNorms
    measure: TokenMeasure
    budget: Budget
    lipschitz: LipschitzEstimate
    second: SecondConstants | None
    following: Following | None
    known: KnownRows | None

    def first_order(self, sample: int) -> float:
        """What the derivative at the tokens alone allows."""
        return float(self.lipschitz.upper[sample]) * self.budget.hilbert_radius(self.measure.sample(sample))

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
    beyond = _third_remainders(asked) if any(worth) else None
    return [
        (*others, _third(asked, second, index, others, beyond[index]))
        if beyond is not None and worth[index]
        else (*others, not_applicable(THIRD_ORDER, refusal or GOOD_ENOUGH, Scope.BALL))
        for index, others in enumerate(found)
    ]


def _third_remainders(asked: Orders) -> list[float]:
    """Of every sample the integral of (1 - t)^2 / 2 times the third derivative along a path to the edge."""
    budgets = along_path(asked.budget, FINE_PATH)
    found: list[Float[Tensor, "samples"]] = [
        each / part**3
        for each, part in zip(
            third_norms(asked.layer, asked.norms, asked.measure, budgets, known=asked.known), FINE_PATH, strict=True
        )
    ]
    return [path_mean([float(each[index]) for each in found], 3, FINE_PATH) for index in range(len(found[0]))]


def _third(asked: Orders, second: SecondConstants, sample: int, others: Sequence[Bound], remainder: float) -> Bound:
    """The first order, half of the second at the tokens, and the remainder (docs/proofs/local.md#third-order)."""
    if not asked.first_order(sample) + remainder < smallest(others):
        return not_applicable(THIRD_ORDER, "the bound on the third derivative is too large to help", Scope.BALL)
    eps = asked.budget.hilbert_radius(asked.measure.sample(sample))
    curved = second.upper(sample)
    if not math.isfinite(curved):
        return not_applicable(THIRD_ORDER, "the second derivative is not a number here", Scope.BALL)
    change = asked.first_order(sample) + eps * eps * curved / 2 + remainder
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

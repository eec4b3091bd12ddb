"""Beyond the first order: orders two to four of a layer's output followed by Gaussian samples, and a bound on the rest.

As for whole predictions (docs/proofs/predictions.md), on the tape of one layer (docs/proofs/local.md#fourth-order).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.bounds.bound import Bound, from_output_change, not_applicable
from robust_attn.budget import Budget
from robust_attn.certificates.layer_tape import layer_tape
from robust_attn.predictions.chance import raised, range_and_norm
from robust_attn.predictions.influence import Influence
from robust_attn.predictions.memory import kept_memory
from robust_attn.predictions.plan import SLACK, HopelessPlanError, Plan, Slack
from robust_attn.predictions.sketch import GaussianDraws
from robust_attn.predictions.tape import Tape
from robust_attn.predictions.travel import Checker, Planner
from robust_attn.predictions.walks import FirstSketch, Streams, orders, started
from robust_attn.types import Scope

NAME = "local.fourth_order"

ROUNDING = 1e-3
"""What is added for rounding to all that lies beyond the first order, relatively."""


LAYER_SLACK: Slack = {**SLACK, "k": 1.6, "c": 2.4}
"""As for predictions, with more for high orders: they scatter most, and matter least here."""
ENTRIES = 1.2e8
"""Entries that one list of samples may have over all nodes."""


@dataclass(frozen=True)
class Following:
    """Gaussian samples in one list, and how likely the bound may fail over their draw."""

    samples: int = 128
    failure_probability: float = 1e-9
    planning: int = 48
    RESERVES: ClassVar[tuple[float, ...]] = (1.1, 1.5, 2.5, 2.5)
    """After each attempt: what planned sizes get beyond the ratio by which they failed."""

    def fits(self, tape: Tape) -> bool:
        """Whether so many samples of everything on the tape can be kept."""
        return self.samples * sum(node.value.numel() for node in tape.nodes) <= ENTRIES


@dataclass(frozen=True)
class FirstOrder:
    """An upper value of the derivative's norm at the tokens, how likely it fails, and the seed of its draw."""

    upper: float
    failure_probability: float
    seed: int


def fourth_order(
    layer: AttentionLayer,
    measure: TokenMeasure,
    budget: Budget,
    first: FirstOrder,
    following: Following,
    *,
    sample: int = 0,
) -> Bound:
    """The derivative's upper value times the radius, and what lies `beyond_first_order`; one measure, in float64."""
    tokens, radius = measure.without_padding(), budget.hilbert_radius(measure)
    tape = layer_tape(layer, tokens, budget.weights(tokens))
    if not following.fits(tape):
        return not_applicable(NAME, f"{tokens.length} atoms are too many for {following.samples} samples", Scope.BALL)
    beyond = beyond_first_order(tape, radius, following, np.random.default_rng((first.seed, sample)))
    if beyond is None:
        return not_applicable(NAME, "fresh samples confirmed no plan at this radius", Scope.BALL)
    probability = first.failure_probability + following.failure_probability
    change = radius * first.upper + beyond
    return from_output_change(NAME, change, budget.radius, Scope.BALL, failure_probability=probability)


def beyond_first_order(tape: Tape, radius: float, following: Following, generator: np.random.Generator) -> float | None:
    """An upper value of |F(D) - F(0) - F'(0) D| over |D| <= radius, F the map of the tape, but for the probability.

    None where fresh samples confirm no plan.
    """
    with torch.no_grad(), kept_memory():
        return _Follower(tape, radius, following, generator).change()


class _Follower:
    def __init__(self, tape: Tape, radius: float, following: Following, generator: np.random.Generator) -> None:
        self.tape, self.radius, self.following = tape, radius, following
        self.free = torch.ones_like(tape.value(0))
        self.generator = generator
        self.shares = range_and_norm(tape, following.failure_probability, attempts=len(following.RESERVES))

    def draws(self) -> GaussianDraws:
        return GaussianDraws(self.generator, self.following.samples, *self.shares)

    def change(self) -> float | None:
        draws = self.draws()
        sketch = FirstSketch.of(
            self.tape, started(draws, self.free), draws, _one_number, keep=2 * self.following.planning
        )
        influence, slack = Influence.of(self.tape, sketch), LAYER_SLACK
        for reserve in self.following.RESERVES:
            plan = Plan(self.radius, follow=True, slack=slack)
            thin = self.draws().fewer(self.following.planning)
            try:
                Planner(self.tape, sketch, plan, thin, influence, hopeless=math.inf).travel(Streams())
            except HopelessPlanError:  # not a number
                return None
            if not plan.is_finite:
                return None
            draws = self.draws()
            checker = Checker(self.tape, sketch, plan, draws)
            end = checker.travel(started(draws, self.free))
            if max(checker.ratios.values()) <= 1:
                return self._size(checker, end)
            slack = raised(slack, checker.ratios, reserve)
        return None

    def _size(self, checker: Checker, end: Streams) -> float:
        """Norms of three orders and of what remainders cause, added up."""
        one = torch.ones((), dtype=torch.float64)
        _, *higher = orders(end, checker.draws)
        sizes = [self.radius**power * sample.norm(one) for power, sample in enumerate(higher, 2)]
        sizes += [sample.norm(one) for sample in checker.samples(end).values()]
        return float(torch.stack(sizes).sum()) * (1 + ROUNDING)


def _one_number(output: Tensor) -> Tensor:
    """A sketch also looks at margins; here there are none, so at one entry."""
    return output.flatten(-2)[..., :1]

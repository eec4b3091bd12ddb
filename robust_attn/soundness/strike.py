"""One attack on one sample of a case, and how far it moved the output: in floats, or exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from robust_attn.attacks.attack import AttackResult
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget
from robust_attn.pipeline import generator_for
from robust_attn.soundness.case import AGAINST_START, EXACT, SHIFTED, Case
from robust_attn.soundness.comparison import Comparison
from robust_attn.soundness.exact import Judge
from robust_attn.soundness.numbers import ATTACKS, attack_of
from robust_attn.soundness.rival import centre_of, centred, rival_layer

MORE = ("linear", "random")
"""Attacks that are tried beside the case's own where exact arithmetic judges."""


@dataclass(frozen=True, eq=False)
class Strike:
    """The measure attacked, perhaps written with copies, the budget kept, and the change of the output.

    `change` is not above the exact one where the strike is `exact`, else it may be off by `rounding`. Without
    `usable` nothing follows: a number is not finite, or exact arithmetic cannot tell whether the budget was kept.
    """

    base: TokenMeasure
    displacement: Tensor
    budget: Budget
    change: float
    rounding: float
    exact: bool
    usable: bool

    def beside(self, bound: str, sample: int, allowed: float) -> Comparison:
        """The comparison with what a bound allows."""
        return Comparison(bound, sample, self.change, self.rounding, allowed, self.exact)


def strike(case: Case, layer: AttentionLayer, sample: TokenMeasure, budget: Budget, number: int) -> Strike:
    """The case's attack on the layer at one sample, both converted to float64 as certificates convert them."""
    layer, sample = layer.to(torch.float64), sample.to(torch.float64)
    generator = generator_for(case.seed, "strike", number)
    if case.judged != EXACT:
        result = attack_of(case)(layer, sample, budget, generator=generator)
        seen = result.observation
        change, rounding = float(seen.output_change), float(seen.rounding)
        usable = math.isfinite(change) and math.isfinite(rounding)
        moved = seen.measure.points - seen.base.points
        return Strike(seen.base, moved, result.budget, change, rounding, exact=False, usable=usable)
    victim, place, room = seen_clearly(case, layer, sample, budget)
    names = (case.attack, *MORE) if attack_of(case).copies == 1 else (case.attack,)
    results = [ATTACKS[name](victim, place, room, generator=generator) for name in names]
    return max((_judged(layer, sample, budget, room, result) for result in results), key=lambda hit: hit.change)


def _judged(layer: AttentionLayer, sample: TokenMeasure, budget: Budget, room: Budget, result: AttackResult) -> Strike:
    """What an attack found where it sees clearly, on the layer itself in exact arithmetic; a change of -1 if unusable.

    An attack that needs a budget of its own says so by another one than the `room` it was given.
    """
    kept = budget if result.budget == room else result.budget
    moved = result.observation.measure.points - result.observation.base.points
    base = sample if moved.shape == sample.points.shape else result.observation.base
    found = Judge.of(layer, base, kept).by(moved)
    change = found.output_lower if found.inside else -1.0
    return Strike(base, moved, kept, change, 0.0, exact=True, usable=found.inside)


def seen_clearly(
    case: Case, layer: AttentionLayer, sample: TokenMeasure, budget: Budget
) -> tuple[AttentionLayer, TokenMeasure, Budget]:
    """The rival at the origin where tokens are far from it (then nothing is said about the support), else in place."""
    if layer.rotary is not None or case.weights in AGAINST_START:
        return layer, sample, budget
    if case.points not in SHIFTED:
        return rival_layer(layer, torch.zeros(layer.width, dtype=torch.float64)), sample, budget
    centre = centre_of(sample)
    return rival_layer(layer, centre), centred(sample, centre), replace(budget, support=None)

"""Token-moving attacks: along the top singular direction, and projected ascent from there and from random starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attacks.ascent import ascend, ascend_all, strongest
from robust_attn.attacks.attack import Attack, Proposal
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget
from robust_attn.spectral.lipschitz import local_lipschitz

LANCZOS_STEPS = 20


@final
@dataclass(frozen=True)
class Linear(Attack):
    """The top singular direction of the derivative, scaled to the budget, in the better of its two signs."""

    name: ClassVar[str] = "linear"

    def propose(
        self, layer: AttentionLayer, measure: TokenMeasure, budget: Budget, generator: torch.Generator
    ) -> Proposal:
        """No steps: the start of `Move` alone."""
        best = ascend(layer, measure, budget, singular_start(layer, measure, budget, generator), steps=0)
        return Proposal(measure, measure.points + best.displacement, best.history)


@final
@dataclass(frozen=True)
class Move(Attack):
    """Projected ascent on the output change, from the top singular direction and from `restarts` random starts."""

    steps: int = 30
    restarts: int = 1
    name: ClassVar[str] = "move"

    def propose(
        self, layer: AttentionLayer, measure: TokenMeasure, budget: Budget, generator: torch.Generator
    ) -> Proposal:
        """The strongest of all starts, per sample."""
        starts = [singular_start(layer, measure, budget, generator)]
        starts += [budget.sample(measure, generator) for _ in range(self.restarts)]
        best = ascend_all(layer, measure, budget, starts, steps=self.steps)
        return Proposal(measure, measure.points + best.displacement, best.history)


def singular_start(
    layer: AttentionLayer, measure: TokenMeasure, budget: Budget, generator: torch.Generator
) -> Float[Tensor, "*batch n d"]:
    """The top right singular vector in the budget's norm, scaled to the budget, in the better of its signs."""
    weights = budget.weights(measure)
    estimate = local_lipschitz(layer, measure, weights=weights, generator=generator, steps=LANCZOS_STEPS)
    direction = budget.steepest(weights.sqrt()[..., None] * estimate.direction, measure)
    return strongest([ascend(layer, measure, budget, sign * direction, steps=0) for sign in (1, -1)]).displacement

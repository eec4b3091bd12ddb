"""Token-moving attacks: along the top singular direction, and projected ascent from there and from other starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch

from robust_attn.attacks.ascent import ascend_all
from robust_attn.attacks.attack import Attack, Proposal
from robust_attn.attacks.head_starts import divided_starts
from robust_attn.attacks.starts import (
    STARTING_GRADIENTS,
    move_starts,
    nearly_linear,
    singular_directions,
    spent,
    strongest,
)
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.operator import ScaledJacobian
from robust_attn.budget import Budget


@final
@dataclass(frozen=True)
class Linear(Attack):
    """The top singular direction of the derivative, scaled to the budget, in the better of its two signs."""

    name: ClassVar[str] = "linear"

    def propose(
        self, layer: AttentionLayer, measure: TokenMeasure, budget: Budget, generator: torch.Generator
    ) -> Proposal:
        """No steps: the first start of `Move` alone."""
        operator = ScaledJacobian(layer.linearize(measure), budget.weights(measure))
        starts = spent(budget, measure, singular_directions(operator, 1, generator))
        best = ascend_all(layer, measure, budget, strongest(layer, measure, budget, starts, 1), steps=0)
        return Proposal(measure, measure.points + best.displacement, best.history, best.gradients)


@final
@dataclass(frozen=True)
class Move(Attack):
    """Projected ascent on the output change from top singular directions, single tokens, divided heads, and at random.

    Of all these starts the best of each sample go the full number of `steps`; `restarts` counts the random ones. Where
    the budget is so small that all of them act as the derivative says, only the two best are followed.
    """

    steps: int = 80
    restarts: int = 1
    name: ClassVar[str] = "move"

    def propose(
        self, layer: AttentionLayer, measure: TokenMeasure, budget: Budget, generator: torch.Generator
    ) -> Proposal:
        """The strongest of all starts, per sample."""
        starts = move_starts(layer, measure, budget, generator, random=self.restarts)
        if nearly_linear(layer, measure, budget, starts):
            starts = strongest(layer, measure, budget, starts, 2)
        else:
            starts = torch.cat((starts, divided_starts(layer, measure, budget, generator)))
        best = ascend_all(layer, measure, budget, starts, steps=self.steps)
        return Proposal(measure, measure.points + best.displacement, best.history, STARTING_GRADIENTS + best.gradients)

"""Token-moving attacks: along the top singular direction, and projected ascent from there and from other starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import torch

from robust_attn.attacks.attack import Attack
from robust_attn.attacks.settings import LinearSettings, MoveSettings
from robust_attn.attacks.starts import exact_change, singular_directions, spent, strongest
from robust_attn.attacks.target import Proposal, Starts, Target, best_of
from robust_attn.attention.operator import ScaledJacobian
from robust_attn.budget import Budget


@final
@dataclass(frozen=True)
class Linear(LinearSettings, Attack):
    """The top singular direction of a layer's derivative, scaled to the budget, in the better of its two signs."""

    def propose(self, target: Target, budget: Budget, generator: torch.Generator) -> Proposal:
        """No steps: the first start of `Move` alone."""
        layer, measure = target.layer_for(self.name), target.measure
        operator = ScaledJacobian(layer.linearize(measure), budget.weights(measure))
        starts = spent(budget, measure, singular_directions(operator, 1, generator))
        best = strongest(measure, budget, starts, 1, exact_change(layer, measure))
        return best_of(target.proposals(Starts(measure, budget, best), steps=0))


@final
@dataclass(frozen=True)
class Move(MoveSettings, Attack):
    """Projected ascent from where the target knows to begin, and at random.

    On a layer these are top singular directions, single tokens and divided heads; of all starts the best of each sample
    go the full number of `steps`. On a loss it is the input itself, and every start goes all of them.
    """

    def propose(self, target: Target, budget: Budget, generator: torch.Generator) -> Proposal:
        """The strongest of all starts, per sample."""
        return best_of(self.candidates(target, budget, generator))

    def candidates(self, target: Target, budget: Budget, generator: torch.Generator) -> Iterator[Proposal]:
        """What the ascents find."""
        for starts in target.moves(budget, generator, random=self.restarts):
            yield from target.proposals(starts, steps=self.steps)

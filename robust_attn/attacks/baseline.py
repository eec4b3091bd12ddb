"""The attacks that every other must beat: doing nothing, and moving at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch

from robust_attn.attacks.attack import Attack
from robust_attn.attacks.settings import NoAttackSettings, RandomSettings
from robust_attn.attacks.target import Proposal, Target
from robust_attn.budget import Budget


@final
@dataclass(frozen=True)
class NoAttack(NoAttackSettings, Attack):
    """Leaves every token where it is."""

    def propose(self, target: Target, budget: Budget, generator: torch.Generator) -> Proposal:  # noqa: ARG002
        """The measure itself."""
        return Proposal(target.measure, target.measure.points)


@final
@dataclass(frozen=True)
class RandomMove(RandomSettings, Attack):
    """The best of `trials` random displacements on the boundary of the budget."""

    @torch.no_grad()
    def propose(self, target: Target, budget: Budget, generator: torch.Generator) -> Proposal:
        """Per sample, the trial with the largest value; the tokens where they are if none is larger."""
        measure = target.measure
        value_at, best = target.values(measure, budget), torch.zeros_like(measure.points)
        value, history = value_at(best), []
        for _ in range(self.trials):
            displacement = budget.project(budget.sample(measure, generator), measure)
            trial = value_at(displacement)
            better = trial > value
            best = torch.where(better[..., None, None], displacement, best)
            value = torch.where(better, trial, value)
            history.append(value)
        return Proposal(measure, measure.points + best, tuple(history))

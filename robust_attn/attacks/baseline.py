"""The attacks that every other must beat: doing nothing, and moving at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch

from robust_attn.attacks.attack import Attack, Proposal
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget


@final
@dataclass(frozen=True)
class NoAttack(Attack):
    """Leaves every token where it is."""

    name: ClassVar[str] = "none"

    def propose(
        self,
        layer: AttentionLayer,  # noqa: ARG002
        measure: TokenMeasure,
        budget: Budget,  # noqa: ARG002
        generator: torch.Generator,  # noqa: ARG002
    ) -> Proposal:
        """The measure itself."""
        return Proposal(measure, measure.points)


@final
@dataclass(frozen=True)
class RandomMove(Attack):
    """The best of `trials` random displacements on the boundary of the budget."""

    trials: int = 16
    name: ClassVar[str] = "random"

    def propose(
        self, layer: AttentionLayer, measure: TokenMeasure, budget: Budget, generator: torch.Generator
    ) -> Proposal:
        """Per sample, the trial with the largest output change."""
        reference = layer(measure)
        best, value = torch.zeros_like(measure.points), torch.zeros_like(measure.points[..., 0, 0])
        history = []
        for _ in range(self.trials):
            displacement = budget.project(budget.sample(measure, generator), measure)
            change = budget.norm(layer(measure.with_points(measure.points + displacement)) - reference, measure)
            better = change > value
            best = torch.where(better[..., None, None], displacement, best)
            value = torch.where(better, change, value)
            history.append(value)
        return Proposal(measure, measure.points + best, tuple(history))

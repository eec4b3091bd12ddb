"""Mass splitting (Castin, Ablin, Peyre 2024): duplicate every token first, then move the copies apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch

from robust_attn.attacks.ascent import ascend_all
from robust_attn.attacks.attack import Attack, Proposal
from robust_attn.attacks.move import Move, singular_start
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget
from robust_attn.types import UserError


@final
@dataclass(frozen=True)
class MassSplit(Attack):
    """Writes every token as `copies` atoms of equal mass, which leaves measure and output as they are, and moves them.

    Starts: the solution of `Move` with the copies together (so it is never weaker than moving), the top singular
    direction of the split measure, where copies may already part, and random ones. Only in the Wasserstein budget do
    copies share their token's budget, so only there is splitting comparable with moving.
    """

    copies: int = 2
    steps: int = 30
    restarts: int = 1
    name: ClassVar[str] = "mass_split"

    def __post_init__(self) -> None:
        if self.copies < 1:
            raise UserError(f"attack.copies must be at least 1, got {self.copies}.")

    def propose(
        self, layer: AttentionLayer, measure: TokenMeasure, budget: Budget, generator: torch.Generator
    ) -> Proposal:
        """The strongest of all starts, per sample, as points of the split measure."""
        base = measure.split(self.copies)
        together = Move(self.steps, self.restarts).propose(layer, measure, budget, generator)
        moved = (together.points - measure.points).repeat_interleave(self.copies, dim=-2)
        starts = [budget.project(moved, base), singular_start(layer, base, budget, generator)]
        starts += [budget.sample(base, generator) for _ in range(self.restarts)]
        best = ascend_all(layer, base, budget, starts, steps=self.steps)
        return Proposal(base, base.points + best.displacement, best.history)

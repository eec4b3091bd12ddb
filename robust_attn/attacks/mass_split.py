"""Mass splitting (Castin, Ablin, Peyre 2024): write tokens as several atoms first, then move these apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import torch

from robust_attn.attacks.attack import Attack
from robust_attn.attacks.move import Move
from robust_attn.attacks.settings import Masses, MassSplitSettings
from robust_attn.attacks.target import Proposal, Target, best_of
from robust_attn.budget import Budget, Wasserstein
from robust_attn.types import UserError

__all__ = ["MassSplit", "Masses"]


@final
@dataclass(frozen=True)
class MassSplit(MassSplitSettings, Attack):
    """Writes tokens as several atoms, which leaves measure and output as they are, and moves these.

    `tokens` is how many tokens of each sample are split, those with the largest query part |V C_i A| (None: all).
    It starts from what `Move` finds with the parts together, so it is never weaker than moving, and from parts moved
    to opposite sides and at random; or, with slivers, from small masses sent far. Parts share their token's budget in
    the Wasserstein budget alone, so only there is splitting comparable with moving. Slivers stay in the support of the
    budget, by default each sample's own largest token norm. None is lighter than `lightest`: a mass t can be sent by
    nobody who does not control one of 1/t tokens.
    """

    @property
    def any_masses(self) -> bool:
        """A sliver has the mass that pays most."""
        return self.slivers

    @property
    def moving(self) -> Move:
        """The same ascent on whole tokens."""
        return Move(self.steps, self.restarts)

    def propose(self, target: Target, budget: Budget, generator: torch.Generator) -> Proposal:
        """The strongest of all, per sample, as points of the split measure."""
        return best_of(self.candidates(target, budget, generator))

    def candidates(self, target: Target, budget: Budget, generator: torch.Generator) -> Iterator[Proposal]:
        """What is known; what moving finds, where splitting could be weaker; then the atoms from their own starts.

        Moving draws from the generator what `Move` by itself would, and so finds the same.
        """
        if (self.slivers or self.some_tokens is not None) and not isinstance(budget, Wasserstein):
            raise UserError(f"Parts of unequal mass compare in a Wasserstein budget alone, not in {budget.kind}.")
        target, budget = target.for_splitting(self, budget)
        for known in target.known_splits(self, budget):
            yield from target.proposals(known, steps=self.steps)
        moved = []
        for found in self.moving.candidates(target, budget, generator):
            moved.append(found)
            if not target.splits_hold_moves:
                yield found
        for starts in target.splits(self, best_of(iter(moved)), budget, generator):
            yield from target.proposals(starts, steps=self.steps)

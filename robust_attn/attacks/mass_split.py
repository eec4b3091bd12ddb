"""Mass splitting (Castin, Ablin, Peyre 2024): write tokens as several atoms first, then move these apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor

from robust_attn.attacks.attack import Attack
from robust_attn.attacks.move import Move
from robust_attn.attacks.settings import LEAST_CONTEXT, Masses, MassSplitSettings
from robust_attn.attacks.target import Proposal, Target, best_of
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget, Wasserstein
from robust_attn.types import UserError

__all__ = ["MassSplit", "Masses"]

ROUNDED = 1e-9
"""Masses are compared with 1 / context up to this part."""


@final
@dataclass(frozen=True)
class MassSplit(MassSplitSettings, Attack):
    """Writes tokens as several atoms, which leaves measure and output as they are, and moves these.

    `tokens` is how many tokens of each sample are split, those with the largest query part |V C_i A| (None: all).
    It starts from what `Move` finds with the pieces together, so it is never weaker than moving, and from pieces moved
    to opposite sides and at random; or, with slivers, from small masses sent far; with both it keeps the stronger.
    Pieces share their token's budget in the Wasserstein budget alone, so only there splitting compares with moving.
    No sliver is lighter than 1 / `context`: a mass t can be sent by nobody who does not control one of 1/t tokens.
    Slivers alone stay in the support of the budget, by default each sample's own largest token norm.
    """

    @property
    def any_masses(self) -> bool:
        """A sliver has the mass that pays most."""
        return self.tries_slivers

    def in_context(self, longest: int | None) -> MassSplit:
        """With the model's own context, at least `LEAST_CONTEXT`, unless a number was asked for."""
        own = max(LEAST_CONTEXT, longest or 0)
        return replace(self, context=own) if isinstance(self.context, str) else self

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
            raise UserError(f"Pieces of unequal mass compare in a Wasserstein budget alone, not in {budget.kind}.")
        ways = self._ways(target.measure, budget)
        target, budget = target.for_splitting(ways[-1], budget, alone=self.slivers)
        for way in ways:
            for known in target.known_splits(way, budget):
                yield from target.proposals(known, steps=self.steps)
        moved = []
        for found in self.moving.candidates(target, budget, generator):
            moved.append(found)
            if not target.splits_hold_moves:
                yield found
        for way in ways:
            for starts in target.splits(way, best_of(iter(moved)), budget, generator):
                for found in target.proposals(starts, steps=self.steps):
                    yield found if len(ways) == 1 else in_pairs(found, target.measure.length)

    def _ways(self, measure: TokenMeasure, budget: Budget) -> list[MassSplit]:
        """What is tried, equal pieces first: these are left out where they would be too light and slivers are not."""
        if self.masses != Masses.BEST:
            return [self]
        equal = replace(self, masses=Masses.EQUAL)
        if not (self.tries_slivers and isinstance(budget, Wasserstein)):
            return [equal]
        sliver = replace(self, masses=Masses.SLIVER)
        lightest = float(measure.masses[measure.present].min()) / self.copies
        return [equal, sliver] if lightest >= self.lightest * (1 - ROUNDED) else [sliver]


def in_pairs(found: Proposal, tokens: int) -> Proposal:
    """A sliver, the last atom, beside what is left of its token; the other tokens beside atoms without mass.

    So it has two adjacent atoms for every token, as equal pieces have.
    """
    base = found.base
    if base.length != tokens + 1 or tokens == 1:
        return found
    home, sliver = base.points[..., :-1, :], base.points[..., -1:, :]
    apart = (home - sliver).square().sum(-1) + (base.positions[..., :-1] != base.positions[..., -1:])
    same = apart == apart.amin(-1, keepdim=True)
    source = torch.where(same, base.masses[..., :-1], torch.inf).argmin(-1, keepdim=True)  # of equal ones the cut one
    here = torch.zeros_like(same).scatter(-1, source, value=True)

    def pairs(field: Tensor) -> Tensor:
        chosen = here.reshape(*here.shape, *[1] * (field.dim() - here.dim()))
        second = torch.where(chosen, field[:, -1:], field[:, :-1])
        return torch.stack((field[:, :-1], second), dim=2).flatten(1, 2)

    masses = torch.stack((base.masses[:, :-1], torch.where(here, base.masses[:, -1:], 0.0)), dim=2).flatten(1, 2)
    written = TokenMeasure(pairs(base.points), masses, pairs(base.positions))
    displacement = torch.where(written.present[..., None], pairs(found.displacement), 0.0)
    return replace(found, base=written, points=written.points + displacement)

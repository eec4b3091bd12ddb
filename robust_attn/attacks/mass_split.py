"""Mass splitting (Castin, Ablin, Peyre 2024): write tokens as several atoms first, then move these apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attacks.ascent import ascend_all
from robust_attn.attacks.attack import Attack, Proposal
from robust_attn.attacks.copies import Split, antisymmetric_starts, cut, equal_parts, query_blocks
from robust_attn.attacks.move import Move
from robust_attn.attacks.sliver import SMALLEST_MASS, best_sliver
from robust_attn.attacks.starts import nearly_linear, strongest
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget, TokenRadius, Wasserstein
from robust_attn.types import FieldError, UserError


class Masses(StrEnum):
    """EQUAL: a token becomes `copies` atoms of equal mass. SLIVER: one token gives up a small mass, as much as pays."""

    EQUAL = "equal"
    SLIVER = "sliver"


@final
@dataclass(frozen=True)
class MassSplit(Attack):
    """Writes tokens as several atoms, which leaves measure and output as they are, and moves these.

    `tokens` is how many tokens of each sample are split, those with the largest query part |V C_i A| (None: all).
    Starts: the solution of `Move` with the parts together (so it is never weaker than moving), parts moved to opposite
    sides, and random ones; or, with slivers, the best small mass sent far. Parts share their token's budget in the
    Wasserstein budget alone, so only there is splitting comparable with moving. Slivers stay in the support of the
    budget, by default each sample's own largest token norm, and so does everything else then. None is lighter than
    `lightest`: a mass t can be sent by nobody who does not control one of 1/t tokens.
    """

    copies: int = 2
    steps: int = 80
    restarts: int = 1
    tokens: int | None = None
    masses: Masses = Masses.EQUAL
    lightest: float = SMALLEST_MASS
    name: ClassVar[str] = "mass_split"

    def __post_init__(self) -> None:
        if self.copies < 1:
            raise FieldError("copies", f"must be at least 1, got {self.copies}.")
        if self.tokens is not None and self.tokens < 1:
            raise FieldError("tokens", f"must be 'all' or at least 1, got {self.tokens}.")
        if self.masses not in list(Masses):
            raise FieldError("masses", f"must be one of {', '.join(Masses)}, got {self.masses!r}.")
        if not 0 < self.lightest < 1:
            raise FieldError("lightest", f"must lie between 0 and 1, got {self.lightest}.")
        if self.masses == Masses.SLIVER and (self.copies != 2 or self.tokens is not None):
            raise UserError("A sliver is one part of one token: leave copies at 2 and tokens at all.")

    @property
    def any_masses(self) -> bool:
        """A sliver has the mass that pays most."""
        return self.masses == Masses.SLIVER

    def propose(
        self, layer: AttentionLayer, measure: TokenMeasure, budget: Budget, generator: torch.Generator
    ) -> Proposal:
        """The strongest of all starts, per sample, as points of the split measure.

        Moving comes first: it draws from the generator what `Move` by itself would, and so finds the same.
        """
        equal = self.masses == Masses.EQUAL
        if not (equal and self.tokens is None) and not isinstance(budget, Wasserstein):
            raise UserError(f"Parts of unequal mass compare in a Wasserstein budget alone, not in {budget.kind}.")
        if not equal:
            layer, measure = layer.to(torch.float64), measure.to(torch.float64)
            budget = replace(budget, support=TokenRadius()) if budget.support is None else budget
        together = Move(self.steps, self.restarts).propose(layer, measure, budget, generator)
        parted = self._equal if equal else self._slivers
        split, apart = parted(layer, measure, budget, generator)
        moved = budget.project(split.lifted(together.points - measure.points), split.base)
        random = [budget.sample(split.base, generator)[None] for _ in range(self.restarts)]
        starts = torch.cat([moved[None], apart, *random])
        if nearly_linear(layer, split.base, budget, starts):
            starts = strongest(layer, split.base, budget, starts, 2)
        best = ascend_all(layer, split.base, budget, starts, steps=self.steps)
        points, gradients = split.base.points + best.displacement, together.gradients + best.gradients
        return Proposal(split.base, points, best.history, gradients, budget)

    def _equal(
        self, layer: AttentionLayer, measure: TokenMeasure, budget: Budget, generator: torch.Generator
    ) -> tuple[Split, Float[Tensor, "starts *batch atoms d"]]:
        """Equal parts of all tokens or of the most influential ones, and how they first part."""
        blocks = query_blocks(layer, measure, generator)
        many = self.tokens is None or self.tokens >= measure.length
        split = equal_parts(measure, self.copies, None if many else blocks.gain.topk(self.tokens or 1, dim=-1).indices)
        if self.copies == 1:
            return split, measure.points.new_zeros(0, *split.base.points.shape)
        return split, antisymmetric_starts(split, budget, blocks)

    def _slivers(
        self, layer: AttentionLayer, measure: TokenMeasure, budget: Budget, generator: torch.Generator
    ) -> tuple[Split, Float[Tensor, "starts *batch atoms d"]]:
        """The best sliver of each sample, cut, and its way."""
        found = [
            best_sliver(layer, measure.sample(index), budget, generator, lightest=self.lightest)
            for index in range(measure.points.shape[0])
        ]
        source = torch.tensor([sliver.source for sliver in found])
        split = cut(measure, source, torch.tensor([sliver.mass for sliver in found], dtype=torch.float64))
        sent = torch.zeros_like(split.base.points)
        sent[:, -1] = torch.stack([sliver.place for sliver in found]) - split.base.points[:, -1]
        return split, sent[None]

"""Mass splitting through a whole classifier: tokens as several atoms that share a position, then moved apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attacks.ascent import Objective, climb
from robust_attn.attacks.mass_split import Masses
from robust_attn.attacks.sliver import SMALLEST_MASS
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget, TokenRadius, Wasserstein
from robust_attn.through.attack import MoveThrough, ThroughAttack
from robust_attn.through.victim import Perturbed, Victim
from robust_attn.types import UserError

REACHES = (2.0, 1.0, 0.5)
"""How far slivers are sent at first, as multiples of the largest token norm; their mass is what the budget leaves."""
LARGEST_SHARE = 0.5


@final
@dataclass(frozen=True)
class SplitThrough(ThroughAttack):
    """Every token as `copies` atoms of equal mass, or as a large part and a sliver; then the ascent on the loss.

    What moving finds is a candidate and a start, so it is never weaker than moving with the same settings.
    """

    copies: int = 2
    steps: int = 30
    restarts: int = 1
    masses: Masses = Masses.EQUAL

    def __post_init__(self) -> None:
        if self.masses == Masses.SLIVER and self.copies != 2:
            raise UserError(f"A sliver is one of two parts of a token: leave attack.copies at 2, got {self.copies}.")

    @property
    def name(self) -> str:
        """As the attack on layers."""
        return "mass_split"

    @property
    def moving(self) -> MoveThrough:
        """The same ascent on whole tokens."""
        return MoveThrough(self.steps, self.restarts)

    def candidates(
        self, victim: Victim, budget: Budget, generator: torch.Generator, known: Perturbed | None = None
    ) -> Iterator[Perturbed]:
        """What is known, then moved, then split from there and from the parts apart."""
        if not isinstance(budget, Wasserstein):
            raise UserError(f"Parts of a token share its budget in budget=wasserstein alone, not in {budget.kind}.")
        if known is not None and known.base.length != victim.base.length:
            yield from self._again(victim, budget, known)
        moved = []
        for found in self.moving.candidates(victim, budget, generator, known):
            moved.append(found)
            yield found
        best = max(moved, key=lambda found: found.loss)
        if self.masses == Masses.SLIVER:
            yield from self._slivers(victim, budget)
        else:
            yield from self._equal(victim, budget, generator, best)

    def _equal(
        self, victim: Victim, budget: Wasserstein, generator: torch.Generator, moved: Perturbed
    ) -> Iterator[Perturbed]:
        """From the move with the parts together and a little apart, and from parts at random."""
        base = victim.base.split(self.copies)
        victim.refuse_unless_unchanged(base)
        together = moved.displacement.repeat_interleave(self.copies, dim=1)
        starts = [together + 0.1 * budget.sample(base, generator)]
        starts += [budget.sample(base, generator) for _ in range(self.restarts)]
        for start in starts:
            yield self._climbed(victim, base, budget, start)

    def _slivers(self, victim: Victim, budget: Wasserstein) -> Iterator[Perturbed]:
        """A sliver of every token, sent along its own gradient; one mass for each distance that is tried."""
        budget = _supported(budget)
        largest = float(victim.base.radius.max())
        for reach in REACHES:
            share = min((budget.radius / (reach * largest)) ** 2, LARGEST_SHARE)
            base = with_slivers(victim.base, share)
            victim.refuse_unless_unchanged(base)
            _, gradient = _of_slivers(victim.objective(base))(torch.zeros_like(base.points))
            yield self._climbed(victim, base, budget, budget.steepest(gradient, base))

    def _again(self, victim: Victim, budget: Wasserstein, known: Perturbed) -> Iterator[Perturbed]:
        """What flipped with a larger radius, brought into the budget: as it is, and as a start.

        Slivers lose mass and go as far as before; what has much mass goes less far.
        """
        ratio, displacement = budget.radius / known.radius, known.displacement.clone()
        if known.base.is_uniform:
            base, displacement = known.base, ratio * displacement
        else:
            share = float(known.base.masses[0, 1] / known.base.masses[0, :2].sum())
            base, budget = with_slivers(victim.base, ratio**2 * share), _supported(budget)
            displacement[:, ::2] *= ratio
        yield victim.perturbed(base, displacement, budget)
        yield self._climbed(victim, base, budget, displacement)

    def _climbed(
        self, victim: Victim, base: TokenMeasure, budget: Wasserstein, start: Float[Tensor, "1 atoms d"]
    ) -> Perturbed:
        objective = victim.objective(base) if base.is_uniform else _of_slivers(victim.objective(base))
        found = climb(objective, base, budget, start, steps=self.steps)
        return victim.perturbed(base, found.displacement, budget)


def with_slivers(measure: TokenMeasure, share: float) -> TokenMeasure:
    """Every token as two adjacent atoms, the second with `share` of its mass, but no less than SMALLEST_MASS."""
    twice = measure.split(2)
    share = max(share, SMALLEST_MASS * measure.length)
    parts = torch.tensor([1 - share, share], dtype=measure.masses.dtype)
    return replace(twice, masses=(measure.masses[..., None] * parts).flatten(-2))


def _of_slivers(objective: Objective) -> Objective:
    """The same for the second atom of every token alone: what the large parts would do costs the budget of slivers."""

    def restricted(displacement: Tensor) -> tuple[Tensor, Tensor]:
        value, gradient = objective(displacement)
        gradient[:, ::2] = 0
        return value, gradient

    return restricted


def _supported(budget: Wasserstein) -> Wasserstein:
    """Slivers stay within the largest token norm unless another support was asked for."""
    return replace(budget, support=TokenRadius()) if budget.support is None else budget

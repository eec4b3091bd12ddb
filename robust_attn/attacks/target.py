"""What an attack makes large: a number for every sample that depends on where the atoms of a measure are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from robust_attn.attacks.ascent import Ascent, Objective
from robust_attn.attacks.settings import MassSplitSettings
from robust_attn.attacks.torchattacks_box import Boxed
from robust_attn.attacks.torchattacks_table import Suited
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure, stack
from robust_attn.budget import Budget, TokenRadius

Values = Callable[[Float[Tensor, "*batch n d"]], Float[Tensor, "*batch"]]
"""From displacements to the value to be made large."""


@dataclass(frozen=True, eq=False)
class Proposal:
    """Where an attack wants the atoms of `base` to go; `base` is the measure attacked, perhaps written with copies.

    `history` is the best value known after each step, of every sample; without one nothing was followed. `budget` is
    the one that the points are meant for, where that is another than the one given.
    """

    base: TokenMeasure
    points: Float[Tensor, "*batch n d"]
    history: tuple[Float[Tensor, "*batch"], ...] = field(default=())
    budget: Budget | None = None

    @property
    def displacement(self) -> Float[Tensor, "*batch n d"]:
        """How far every atom is to go."""
        return self.points - self.base.points

    def sample(self, index: int) -> Proposal:
        """The same for one sample alone."""
        history = tuple(values[index] for values in self.history)
        return replace(self, base=self.base.sample(index), points=self.points[index], history=history)

    def written(self, copies: int) -> Proposal:
        """The same with every atom as `copies` atoms that stay together."""
        return replace(self, base=self.base.split(copies), points=self.points.repeat_interleave(copies, dim=-2))


@dataclass(frozen=True, eq=False)
class Starts:
    """Displacements of `base` in a budget from which to ascend; `fixed` ones are to be proposed as they are.

    `free` says which atoms may move, None for all. `summit` is one more displacement, from which an ascent has arrived.
    `history` are the values on the way to a fixed one, where somebody followed it. Where they are `linear` all of them
    change the output as the derivative does, so that the way up is short.
    """

    base: TokenMeasure
    budget: Budget
    fields: Float[Tensor, "starts *batch n d"]
    free: Bool[Tensor, "*batch n"] | None = None
    fixed: bool = False
    summit: Float[Tensor, "*batch n d"] | None = None
    history: tuple[Float[Tensor, "*batch"], ...] = ()
    linear: bool = False


@final
class Steps:
    """How many gradients were spent on a sample; whoever listens hears of each step, of all starts and samples."""

    def __init__(self, on_step: Callable[[], None] | None = None) -> None:
        self.on_step = on_step
        self.gradients = 0

    def add(self, gradients: int = 1) -> None:
        """One more step, with so many gradients for each sample."""
        self.gradients += gradients
        if self.on_step is not None:
            self.on_step()


class Target(ABC):
    """The value to be made large at points of a batched `measure`, and where a search for them begins best."""

    measure: TokenMeasure
    steps: Steps
    splits_hold_moves: ClassVar[bool]
    """Whether what comes of `splits` is never weaker than the move that they are given."""

    @abstractmethod
    def objective(self, base: TokenMeasure, budget: Budget) -> Objective:
        """Value and gradient at displacements of `base`: the measure, perhaps written with more atoms, or repeated."""

    @abstractmethod
    def values(self, base: TokenMeasure, budget: Budget) -> Values:
        """The value alone."""

    @abstractmethod
    def moves(self, budget: Budget, generator: torch.Generator, *, random: int) -> Iterator[Starts]:
        """Where moves of the atoms begin: `random` ones at random beside those that are informed."""

    @abstractmethod
    def for_splitting(self, way: MassSplitSettings, budget: Budget, *, alone: bool) -> tuple[Target, Budget]:
        """The target in the precision that this way needs, and the budget in which moving is compared with it.

        `alone` says that no other way is tried. A UserError where mass cannot be split in this way.
        """

    @abstractmethod
    def splits(
        self,
        way: MassSplitSettings,
        moved: Proposal,
        budget: Budget,
        generator: torch.Generator,
        *,
        ahead: Float[Tensor, "samples"] | None = None,
    ) -> Iterator[Starts]:
        """The measure with tokens as several atoms, and where these begin to move, knowing the best move.

        `ahead` is what other ways have reached: this one may be left out where it stays far behind.
        """

    @abstractmethod
    def ascents(self, starts: Starts, *, steps: int) -> Iterator[Ascent]:
        """What `steps` steps make of the starts: all at once, or one after another as they are asked for."""

    @abstractmethod
    def boxed(self, index: int, budget: Budget, suited: Suited, generator: torch.Generator) -> Boxed:
        """One sample as torchattacks sees it: an image, a classifier, a label."""

    @abstractmethod
    def layer_for(self, attack: str) -> AttentionLayer:
        """The layer, for an attack that knows layers alone; a UserError where there is none."""

    def known_splits(self, way: MassSplitSettings, budget: Budget) -> Iterator[Starts]:  # noqa: ARG002
        """Splits known from a larger budget, brought into this one."""
        yield from ()

    @final
    def proposals(self, starts: Starts, *, steps: int) -> Iterator[Proposal]:
        """What comes of the starts, each as soon as it is known."""
        base = starts.base
        if starts.fixed:
            yield from (Proposal(base, base.points + each, starts.history, starts.budget) for each in starts.fields)
            return
        for found in self.ascents(starts, steps=steps):
            yield Proposal(base, base.points + found.displacement, found.history, starts.budget)

    @final
    def counted(self, objective: Objective) -> Objective:
        """The same objective, whose evaluations are counted."""
        samples = self.measure.masses[..., 0].numel()

        def counting(displacement: Tensor) -> tuple[Tensor, Tensor]:
            self.steps.add(displacement[..., 0, 0].numel() // samples)
            return objective(displacement)

        return counting


def supported(budget: Budget) -> Budget:
    """With a support if it has none: slivers stay within each sample's largest token norm."""
    return replace(budget, support=TokenRadius()) if budget.support is None else budget


def best_of(proposals: Iterator[Proposal]) -> Proposal:
    """Of those that were followed the one with the largest value, sample by sample; the first if there are several.

    Where samples end with different numbers of atoms, all are written with the largest.
    """
    found = [proposal for proposal in proposals if proposal.history]
    if len(found) == 1:
        return found[0]
    choice = torch.stack([proposal.history[-1] for proposal in found]).argmax(0).tolist()
    picked = [found[which].sample(index) for index, which in enumerate(choice)]
    atoms, steps = max(each.base.length for each in picked), max(len(each.history) for each in picked)
    picked = [each.written(atoms // each.base.length) for each in picked]
    history = (
        torch.stack([each.history[min(step, len(each.history) - 1)] for each in picked]) for step in range(steps)
    )
    points = torch.stack([each.points for each in picked])
    budget = picked[0].budget if len(picked) == 1 else found[0].budget
    return Proposal(stack([each.base for each in picked]), points, tuple(history), budget)

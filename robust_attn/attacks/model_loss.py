"""The loss of a classifier that reads token measures, as a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from robust_attn.attacks.ascent import Ascent, Objective, climb
from robust_attn.attacks.settings import SMALLEST_MASS, MassSplitSettings
from robust_attn.attacks.target import Proposal, Starts, Steps, Target, Values, supported
from robust_attn.attacks.torchattacks_box import Boxed, BudgetBox, PixelBox
from robust_attn.attacks.torchattacks_table import Suited
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget
from robust_attn.types import UserError

Reader = Callable[[TokenMeasure], Float[Tensor, "samples classes"]]
"""Logits of every sample of a measure, differentiable in its points."""
UNCHANGED = 1e-6
"""Largest relative difference of logits that counts as none where tokens are only written as several atoms."""
APART = 0.1
"""How far the pieces of a token that was moved begin apart, as a part of the budget."""
REACHES = (2.0, 1.0, 0.5)
"""How far slivers are sent at first, as multiples of the largest token norm; their mass is what the budget leaves."""
LARGEST_SHARE = 0.5


@final
@dataclass(frozen=True, eq=False)
class ModelLoss(Target):
    """Cross-entropy of the labels, or with `targeted` the negative one. Starts are followed one after another.

    `image` is the shape of the image whose pixels the points are, if they are. `known` is what a larger budget gave.
    """

    reader: Reader
    measure: TokenMeasure
    labels: Int[Tensor, " samples"]
    targeted: bool = False
    image: tuple[int, int, int] | None = None
    called: str = "the classifier"
    known: Proposal | None = None
    steps: Steps = field(default_factory=Steps)
    splits_hold_moves: ClassVar[bool] = False

    def objective(self, base: TokenMeasure, budget: Budget) -> Objective:
        """The loss and its gradient."""
        loss = self.values(base, budget)

        def objective(displacement: Tensor) -> tuple[Tensor, Tensor]:
            with torch.enable_grad():
                moved = displacement.detach().requires_grad_(True)
                value = loss(moved)
                (gradient,) = torch.autograd.grad(value.sum(), moved)
            return value.detach(), gradient

        return self.counted(objective)

    def values(self, base: TokenMeasure, budget: Budget) -> Values:  # noqa: ARG002
        """The loss. Pixels are left to torchattacks, which keeps them in their range."""
        if self.image is not None:
            raise UserError("the pixels of an image are attacked with attack=torchattacks, which keeps them in range.")
        sign = -1 if self.targeted else 1

        def loss(displacement: Tensor) -> Tensor:
            logits = self.reader(base.with_points(base.points + displacement))
            return sign * functional.cross_entropy(logits, self.labels, reduction="none")

        return loss

    def moves(self, budget: Budget, generator: torch.Generator, *, random: int) -> Iterator[Starts]:
        """The input itself, what is known, and random starts."""
        base = self.measure
        starts = [torch.zeros_like(base.points)]
        if self.known is not None and self.known.base.length == base.length:
            starts.insert(0, self._shorter(self.known, budget) * self.known.displacement)
            yield Starts(base, budget, starts[0][None], fixed=True)
        starts += [budget.sample(base, generator) for _ in range(random)]
        yield Starts(base, budget, torch.stack(starts))

    def for_splitting(self, way: MassSplitSettings, budget: Budget, *, alone: bool) -> tuple[Target, Budget]:  # noqa: ARG002
        """As it is: all tokens are split, and moves need no support."""
        if way.some_tokens is not None:
            raise UserError(f"A whole model splits all tokens alike: leave attack.tokens at all, got {way.tokens}.")
        return self, budget

    def splits(
        self, way: MassSplitSettings, moved: Proposal, budget: Budget, generator: torch.Generator
    ) -> Iterator[Starts]:
        """Equal pieces of every token, or a large piece and a sliver."""
        return self._slivers(way, budget) if way.slivers else self._equal(way, moved, budget, generator)

    def ascents(self, starts: Starts, *, steps: int) -> Iterator[Ascent]:
        """One of each start."""
        objective = _only(starts.free, self.objective(starts.base, starts.budget))
        for start in starts.fields:
            yield climb(objective, starts.base, starts.budget, start, steps=steps)

    def boxed(self, index: int, budget: Budget, suited: Suited, generator: torch.Generator) -> Boxed:  # noqa: ARG002
        """The classifier itself: on pixels in their range, on embeddings in a box."""
        if self.targeted:
            raise UserError("attacks of torchattacks leave a label here, they do not aim at one.")
        clean = self.measure.sample(index)

        def logits(points: Tensor) -> Tensor:
            masses, positions = (part.expand(points.shape[:-1]) for part in (clean.masses, clean.positions))
            return self.reader(TokenMeasure(points, masses, positions))

        box = BudgetBox(clean, budget) if self.image is None else PixelBox(clean, budget, self.image)
        return Boxed(box, logits, int(self.labels[index]))

    def layer_for(self, attack: str) -> AttentionLayer:
        """There is none."""
        raise UserError(f"A whole model is attacked by random, move, mass_split or torchattacks, not by {attack}.")

    def known_splits(self, way: MassSplitSettings, budget: Budget) -> Iterator[Starts]:
        """As it is, and as a start. Slivers lose mass and go as far as before; what has much mass goes less far."""
        if self.known is None or self.known.base.length == self.measure.length:
            return
        ratio, base, field = self._shorter(self.known, budget), self.known.base, self.known.displacement
        if way.slivers:
            share = ratio**2 * (base.masses[:, 1] / base.masses[:, :2].sum(-1))
            base = with_slivers(self.measure, share, lightest=way.lightest)
            starts = _of_slivers(base, budget, torch.where(_light(base)[..., None], field, ratio * field))
        else:
            starts = Starts(base, budget, (ratio * field)[None])
        yield replace(starts, fixed=True)
        yield starts

    def refuse_unless_unchanged(self, base: TokenMeasure) -> None:
        """The clean input written with more atoms must be the same input to the classifier."""
        with torch.no_grad():
            before, after = self.reader(self.measure), self.reader(base)
        difference, size = float((after - before).abs().max()), float(before.abs().max())
        if not difference <= UNCHANGED * size:
            raise UserError(
                f"{self.called} notices when tokens are only written as several atoms (logits of size "
                f"{size:.1e} change by {difference:.1e}), so mass cannot be split in it."
            )

    def _equal(
        self, way: MassSplitSettings, moved: Proposal, budget: Budget, generator: torch.Generator
    ) -> Iterator[Starts]:
        """From the move with the pieces a little apart, and from pieces at random."""
        base = self.measure.split(way.copies)
        self.refuse_unless_unchanged(base)
        together = moved.displacement.repeat_interleave(way.copies, dim=1)
        starts = [together + APART * budget.sample(base, generator)]
        starts += [budget.sample(base, generator) for _ in range(way.restarts)]
        yield Starts(base, budget, torch.stack(starts))

    def _slivers(self, way: MassSplitSettings, budget: Budget) -> Iterator[Starts]:
        """A sliver of every token, sent along its own gradient; one mass for each distance that is tried."""
        for reach in REACHES:
            share = (budget.radius / (reach * self.measure.radius)).square().clamp_max(LARGEST_SHARE)
            base = with_slivers(self.measure, share, lightest=way.lightest)
            self.refuse_unless_unchanged(base)
            here = _of_slivers(base, budget, torch.zeros_like(base.points))
            _, gradient = _only(here.free, self.objective(base, here.budget))(here.fields[0])
            yield replace(here, fields=here.budget.steepest(gradient, base)[None])

    @staticmethod
    def _shorter(known: Proposal, budget: Budget) -> float:
        """This radius as a part of the known one."""
        assert known.budget is not None
        return budget.radius / known.budget.radius


def with_slivers(
    measure: TokenMeasure, share: float | Float[Tensor, " samples"], *, lightest: float = SMALLEST_MASS
) -> TokenMeasure:
    """Every token as two adjacent atoms, the second with `share` of its mass, but no less than `lightest`."""
    masses = measure.masses
    given = torch.as_tensor(share, dtype=masses.dtype, device=masses.device)
    share = given.clamp_min(lightest * measure.length).expand(masses.shape[:1])
    parts = torch.stack((1 - share, share), dim=-1)[:, None]
    return replace(measure.split(2), masses=(masses[..., None] * parts).flatten(-2))


def _of_slivers(base: TokenMeasure, budget: Budget, field: Float[Tensor, "samples atoms d"]) -> Starts:
    """Slivers alone move, within the support: what the large pieces would do costs their budget."""
    return Starts(base, supported(budget), field[None], free=_light(base))


def _light(base: TokenMeasure) -> Bool[Tensor, "samples atoms"]:
    """The second of every two atoms."""
    return (torch.arange(base.length, device=base.points.device) % 2 == 1).expand(base.masses.shape)


def _only(free: Bool[Tensor, "*batch n"] | None, objective: Objective) -> Objective:
    """The same for the free atoms alone, which are all where nothing is said."""
    if free is None:
        return objective

    def restricted(displacement: Tensor) -> tuple[Tensor, Tensor]:
        value, gradient = objective(displacement)
        return value, torch.where(free[..., None], gradient, 0.0)

    return restricted

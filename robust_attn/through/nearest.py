"""The nearest flip by moving rows of an input: descent of the margin inside a ball, from several starts at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from robust_attn.attacks.ascent import climb
from robust_attn.attacks.target import Proposal, Steps
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget
from robust_attn.through.flip import Flip, smallest_flip
from robust_attn.through.victim import Perturbed, Victim

FIRST_ROUND = 4
"""Of the steps of a descent one in so many is made before it is looked at first: most flips need no more."""
TOGETHER = 16
"""Inputs that are read in one batch at most."""
CLOSER = 8
"""Points of a segment that are read at once when a flip is drawn towards the clean input."""


@final
@dataclass(frozen=True, eq=False)
class Nearest:
    """How flips are looked for around a victim, in the norm of `budget` (its radius is not used).

    `directions` are displacements to begin with beside the gradient, `restarts` counts random ones. `steps` is how many
    gradients one descent takes at most; all of them are counted.
    """

    victim: Victim
    budget: Budget
    generator: torch.Generator
    steps: int = 24
    restarts: int = 1
    accuracy: float = 0.05
    directions: Sequence[Float[Tensor, "n d"]] = ()
    spent: Steps = field(default_factory=Steps)

    def all_rows(self) -> Flip:
        """The smallest flip found by moving every row."""
        return self._of_rows(self._everywhere())

    def one_row(self, rows: Sequence[int]) -> tuple[Flip, int | None]:
        """The smallest flip found by moving one of the rows alone, and which.

        The row that the gradient names is searched from scratch; then all rows try to do better, until none can.
        """
        if not rows:
            return Flip(None, 0), None
        slopes = self._slope(self._everywhere()).norm(dim=-1)
        order = sorted(rows, key=lambda row: -float(slopes[row]))
        flip, tried = self._of_rows(self._only(order[0])), 0
        found = flip.found
        radius = self._largest() if found is None else found.radius / (1 + self.accuracy)
        while (nearer := self._nearest_of(order, radius)) is not None:
            found, radius, tried = nearer, nearer.radius / (1 + self.accuracy), tried + 1
        return Flip(found, flip.tried + tried + 1), None if found is None else _moved_row(found)

    def _of_rows(self, free: Bool[Tensor, " n"]) -> Flip:
        linear = self._linear_distance(free)
        largest = self._largest()
        start = linear if 0 < linear < largest else largest / 100
        return smallest_flip(
            lambda radius, known: self._flipped(radius, self._starts(radius, free, known), free.expand(1, -1)),
            start=start,
            largest=largest,
            accuracy=self.accuracy,
        )

    def _nearest_of(self, rows: Sequence[int], radius: float) -> Perturbed | None:
        """The nearest flip within the radius of any of the rows alone, each from its gradient."""
        found: list[Perturbed] = []
        for begin in range(0, len(rows), TOGETHER):
            free = torch.stack([self._only(row) for row in rows[begin : begin + TOGETHER]])
            flip = self._flipped(radius, torch.zeros(len(free), *self._points.shape, dtype=self._points.dtype), free)
            found += [] if flip is None else [flip]
        return min(found, key=lambda each: each.radius, default=None)

    def _starts(self, radius: float, free: Tensor, known: Perturbed | None) -> Float[Tensor, "starts n d"]:
        """What is known from a larger radius, the input itself (whose first step is the gradient), and others."""
        budget, base, starts = replace(self.budget, radius=radius), self.victim.base, []
        if known is not None:
            starts.append(known.displacement * (radius / known.radius))
        starts.append(torch.zeros_like(base.points))
        starts += [budget.steepest((each * free[:, None])[None], base) for each in self.directions]
        for _ in range(self.restarts):
            noise = torch.randn(base.points.shape, generator=self.generator, dtype=base.points.dtype)
            starts.append(budget.steepest(noise * free[:, None], base))
        return torch.cat(starts)

    def _flipped(self, radius: float, starts: Float[Tensor, "k n d"], free: Bool[Tensor, "#k n"]) -> Perturbed | None:
        """The nearest flip that descents inside the radius come to, drawn towards the clean input; None without one."""
        budget = replace(self.budget, radius=radius)
        first = -(-self.steps // FIRST_ROUND)
        for steps in (first, self.steps - first):
            starts = self._descended(budget, starts, free, steps)
            with torch.no_grad():
                flips = self._falls(starts) > self._margin
            if bool(flips.any()):
                closer = [self._closer(each) for each in starts[flips]]
                return self._read(min(closer, key=self._size))
        return None

    def _descended(self, budget: Budget, starts: Tensor, free: Tensor, steps: int) -> Float[Tensor, "k n d"]:
        mask = free.expand(len(starts), -1)[..., None]

        def objective(displacement: Tensor) -> tuple[Tensor, Tensor]:
            self.spent.add(len(displacement))
            with torch.enable_grad():
                moved = displacement.detach().requires_grad_(True)
                fall = self._falls(moved)
                (gradient,) = torch.autograd.grad(fall.sum(), moved)
            return fall.detach(), torch.where(mask, gradient, 0.0)

        return climb(objective, self._many(len(starts)), budget, starts, steps=steps).displacement

    def _closer(self, displacement: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """The same, shortened as far as it flips: two rounds of points on the segment to the clean input."""
        low, high = 0.0, 1.0
        for _ in range(2):
            parts = torch.linspace(low, high, CLOSER + 1, dtype=displacement.dtype)[1:]
            with torch.no_grad():
                flips = self._falls(parts[:, None, None] * displacement) > self._margin
            first = int(flips.nonzero()[0]) if bool(flips.any()) else CLOSER - 1
            low, high = (low if first == 0 else float(parts[first - 1])), float(parts[first])
        return high * displacement

    def _read(self, displacement: Float[Tensor, "n d"]) -> Perturbed | None:
        """What the classifier says to it once it is inside a ball as rounded; None where that undoes the flip."""
        base = self.victim.base
        budget = replace(self.budget, radius=self._size(displacement) * (1 + 1e-12))
        found = self.victim.read(Proposal(base, base.points + displacement), budget)
        return found if found.flipped else None

    def _falls(self, displacement: Float[Tensor, "k n d"]) -> Float[Tensor, " k"]:
        """By how much the margin has fallen: above the margin itself the prediction is another."""
        parts = [self._margins(part) for part in displacement.split(TOGETHER)]
        return self._margin - torch.cat(parts)

    def _margins(self, displacement: Float[Tensor, "k n d"]) -> Float[Tensor, " k"]:
        many, label = self._many(len(displacement)), self.victim.label
        logits = self.victim.classifier.logits(many.with_points(many.points + displacement))
        others = torch.cat([logits[:, :label], logits[:, label + 1 :]], dim=1)
        return logits[:, label] - others.amax(1)

    def _linear_distance(self, free: Bool[Tensor, " n"]) -> float:
        """Where the margin would end if it were linear."""
        unit, slope = replace(self.budget, radius=1.0), self._slope(free)[None]
        rate = float((slope * unit.steepest(slope, self.victim.base)).sum())
        return self._margin / rate if rate > 0 else 0.0

    def _slope(self, free: Bool[Tensor, " n"]) -> Float[Tensor, "n d"]:
        self.spent.add()
        with torch.enable_grad():
            still = torch.zeros_like(self.victim.base.points, requires_grad=True)
            (gradient,) = torch.autograd.grad(self._falls(still).sum(), still)
        return gradient[0] * free[:, None]

    @property
    def _points(self) -> Float[Tensor, "n d"]:
        return self.victim.base.points[0]

    @cached_property
    def _margin(self) -> float:
        return -self.victim.unperturbed().margin

    def _largest(self) -> float:
        """Displacements as large as the input itself."""
        return float(self.budget.norm(self.victim.base.points, self.victim.base))

    def _size(self, displacement: Float[Tensor, "n d"]) -> float:
        return float(self.budget.norm(displacement[None], self.victim.base))

    def _many(self, count: int) -> TokenMeasure:
        base = self.victim.base
        return TokenMeasure(
            *(each.expand(count, *each.shape[1:]) for each in (base.points, base.masses, base.positions))
        )

    def _everywhere(self) -> Bool[Tensor, " n"]:
        return torch.ones(len(self._points), dtype=torch.bool)

    def _only(self, row: int) -> Bool[Tensor, " n"]:
        return torch.arange(len(self._points)) == row


def _moved_row(found: Perturbed) -> int:
    """The row that went farthest."""
    return int(found.displacement[0].norm(dim=-1).argmax())

"""Along a tape with sampled tangents: remainders are answered, planned sizes are written, and then confirmed."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import final

import torch
from torch import Tensor

from robust_attn.predictions.influence import Influence
from robust_attn.predictions.look import Look, Part, Sizes
from robust_attn.predictions.plan import NOTHING, Margins, Plan
from robust_attn.predictions.remainders.ellipsoids import together
from robust_attn.predictions.sketch import Draws, Sample
from robust_attn.predictions.tape import Node, Tape
from robust_attn.predictions.walks import ROUNDING, FirstSketch, Orders, Streams, added, filled, orders, there, walk

RANGE_SLACK = (1.8, 2.6)
"""How much more slack than norms planned ranges of z and w have: there are many, and all must be confirmed."""
LEAST = 1e-9
"""Planned ranges are at least this much of the largest one: below there is nothing but rounding."""
CONTENTS: dict[Part, tuple[tuple[int, ...], bool, bool]] = {
    "y": ((1,), False, False),
    "s": ((2,), False, False),
    "h": ((3, 4), True, True),
    "e": ((2, 3, 4), True, True),
    "c": ((4,), False, True),
    "d": ((1, 2, 3, 4), True, True),
}
"""What every part of a deviation consists of: orders, and whether z and w belong to it."""
UNFOLLOWED: dict[Part, tuple[tuple[int, ...], bool, bool]] = {
    "y": ((1,), False, False),
    "s": ((), False, False),
    "h": ((2,), True, False),
    "e": ((2,), True, False),
    "c": ((2,), True, False),
    "d": ((1, 2), True, False),
}
"""The same where only the second order is followed, and no products of it."""
Read = Callable[[Tensor], Tensor]
"""From logits to margins, with or without a batch axis in front."""


class Traveller(Look):
    """Goes along the tape with streams.

    The deviation is radius u + radius^2 s + radius^3 t + radius^4 q + mass^{1/2} (z + radius w), each times a vector of
    norm at most one (docs/proofs/predictions.md#streams); without following there is no t, q and w.
    """

    def __init__(self, tape: Tape, sketch: FirstSketch, plan: Plan, draws: Draws) -> None:
        self.tape, self.sketch, self.plan, self.draws = tape, sketch, plan, draws
        self.mass = 0.0
        self.first: list[Orders] = []
        self.arriving: list[Streams] = []

    @final
    def travel(self, start: Streams) -> Streams:
        """The streams at the end."""
        return walk(self.tape, start, self._visit)

    def _visit(self, index: int, node: Node, arriving: list[Streams], leaving: Streams) -> Streams:
        self.first, self.arriving = self.sketch.inputs[index], arriving
        operation, at = there(node.operation), self.tape.at(node)
        axes = operation.remainder(at, self)
        powers = None if self.plan.follow else operation.powers(at, self)
        axes = axes if powers is None else together(axes, powers)
        self.plan.axes.setdefault(index, axes)
        injected = [each.z for each in arriving]
        if self.plan.follow and any(each is not None for each in injected):
            zs = filled(injected, at)
            ys = [self._y(slot)[: len(zs[0])] for slot in range(len(arriving))]
            leaving = replace(leaving, w=added(leaving.w, operation.second(at, ys, zs)))
        mass = self._mass(index)
        self.mass += mass
        if mass == 0:
            return leaving
        return replace(leaving, z=added(leaving.z, self.draws.injection(self._cast(axes / math.sqrt(mass)))))

    @final
    def samples(self, streams: Streams) -> tuple[Sample | None, Sample | None]:
        """z and w: linear in what remainders injected, and in its products with a first order."""
        z, w, radius = streams.z, streams.w, self.plan.radius
        return (
            None if z is None else Sample(z, self.draws.injected(1) * self.mass),
            None if w is None else Sample(w, self.draws.injected(2) * self.mass * radius**2),
        )

    @final
    def ranges(self, slot: int) -> Sizes:
        """Sound for the orders, planned and confirmed for the rest."""
        return self._joined(self.first[slot].ranges, self._rest(slot, Sample.ranges))

    @final
    def rows(self) -> Sizes:
        """As the ranges."""
        weights = there(self.first[0].row_weights)
        return self._joined(there(self.first[0].rows), self._rest(0, lambda sample: sample.rows(weights)))

    @final
    def shape(self, slot: int) -> Sizes:
        """As planned, not confirmed."""
        return self._joined(self.first[slot].ranges, self._rest(slot, Sample.ranges, promised=False))

    def _joined(self, by_order: tuple[Tensor, ...], rest: list[Tensor]) -> Sizes:
        y, s, *higher = (self.plan.radius**power * each for power, each in enumerate(by_order, 1))
        if not self.plan.follow:
            return Sizes(y, torch.zeros_like(s), s + rest[0], s + rest[0])
        t, q = higher
        return Sizes(y, s, t + q + rest[0] + rest[1], q + rest[1])

    def _rest(self, slot: int, measure: Callable[[Sample], Tensor], *, promised: bool = True) -> list[Tensor]:
        """Of z, and of w."""
        sizes = (NOTHING if each is None else measure(each) for each in self.samples(self.arriving[slot]))
        slacks = (self.plan.slack * more for more in RANGE_SLACK)
        return [self._settled(each, slack, promised=promised) for each, slack in zip(sizes, slacks, strict=True)]

    @final
    def norm(self, slot: int, weights: Tensor, part: Part) -> Tensor:
        """Planned and confirmed, all orders."""
        powers, with_z, with_w = (CONTENTS if self.plan.follow else UNFOLLOWED)[part]
        total, samples = NOTHING, self._orders(slot)
        for power in powers:
            total = total + self.plan.radius**power * samples[power - 1].norm(weights)
        for each, wanted in zip(self.samples(self.arriving[slot]), (with_z, with_w), strict=True):
            total = total + each.norm(weights) if each is not None and wanted else total
        return self._settled(total, self.plan.slack)

    @abstractmethod
    def _settled(self, guess: Tensor, slack: float, *, promised: bool = True) -> Tensor:
        """The planned size for what samples say."""

    @abstractmethod
    def _orders(self, slot: int) -> tuple[Sample, ...]:
        """Samples of the first orders."""

    @abstractmethod
    def _y(self, slot: int) -> Tensor:
        """First orders that are independent of what remainders inject, at least as many."""

    @abstractmethod
    def _mass(self, index: int) -> float:
        """The share of this node's ellipsoid in sums: any positive number, 0 if all axes are."""

    def _cast(self, axes: Tensor) -> Tensor:
        return axes

    @final
    def margins(self, end: Streams, read: Read, worst: float) -> Margins:
        """Sizes at the end."""
        by_order = (self.plan.radius**power * each for power, each in enumerate(self.sketch.margins.ranges, 1))
        z, w = (None if part is None else read(part.double()) for part in (end.z, end.w))
        rest = sum((NOTHING if each is None else each.ranges() for each in self.samples(Streams(z=z, w=w))), NOTHING)
        return Margins(tuple(by_order), rest * (1 + ROUNDING), worst)


@final
class Planner(Traveller):
    """Writes a plan, with the samples of the first sketch for all orders."""

    def __init__(self, tape: Tape, sketch: FirstSketch, plan: Plan, draws: Draws, influence: Influence) -> None:
        super().__init__(tape, sketch, plan, draws)
        self._influence = influence

    def _settled(self, guess: Tensor, slack: float, *, promised: bool = True) -> Tensor:  # noqa: ARG002
        self.plan.sizes.append(guess.double() * slack + LEAST * float(guess.max()))
        return self.plan.sizes[-1]

    def _orders(self, slot: int) -> tuple[Sample, ...]:
        return self.first[slot].samples

    def _y(self, slot: int) -> Tensor:
        return self.first[slot].y

    def _mass(self, index: int) -> float:
        self.plan.masses[index] = self._influence.size(index, self.plan.axes[index])
        return self.plan.masses[index]

    def _cast(self, axes: Tensor) -> Tensor:
        return axes.float()


@final
class Checker(Traveller):
    """Reads a plan and compares it with fresh samples."""

    def __init__(self, tape: Tape, sketch: FirstSketch, plan: Plan, draws: Draws) -> None:
        super().__init__(tape, sketch, plan, draws)
        self._written: Iterator[Tensor] = iter(plan.sizes)
        self.worst = 0.0
        """Largest ratio of a fresh size to the planned one; the plan holds if it is at most 1."""

    def _settled(self, guess: Tensor, slack: float, *, promised: bool = True) -> Tensor:  # noqa: ARG002
        written = next(self._written)
        if promised:
            ratio = torch.where(guess == 0, 0.0, guess * (1 + ROUNDING) / written)
            self.worst = math.inf if bool(ratio.isnan().any()) else max(self.worst, float(ratio.max()))
        return written

    def _orders(self, slot: int) -> tuple[Sample, ...]:
        return orders(self.arriving[slot], self.draws)

    def _y(self, slot: int) -> Tensor:
        return there(self.arriving[slot].u)

    def _mass(self, index: int) -> float:
        return self.plan.masses[index]


def planned(
    tape: Tape, sketch: FirstSketch, plan: Plan, draws: Draws, read: Read, *, influence: Influence
) -> tuple[Plan, Margins]:
    """The plan written, and the margins that it hopes for."""
    planner = Planner(tape, sketch, plan, draws, influence)
    end = planner.travel(Streams())
    return planner.plan, planner.margins(end, read, math.inf)


def confirmed(tape: Tape, sketch: FirstSketch, plan: Plan, draws: Draws, read: Read, *, start: Streams) -> Margins:
    """Walks with everything, fresh; the margins hold if `worst` is at most 1."""
    checker = Checker(tape, sketch, plan, draws)
    end = checker.travel(start)
    return checker.margins(end, read, checker.worst)

"""Along a tape with sampled tangents: remainders are answered, planned sizes are written, and then confirmed."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import final

import torch
from torch import Tensor

from robust_attn.predictions.influence import Influence
from robust_attn.predictions.look import Look, Part, Sizes
from robust_attn.predictions.plan import NOTHING, SLACK, HopelessPlanError, Kind, Margins, Plan
from robust_attn.predictions.remainders.ellipsoids import together
from robust_attn.predictions.sketch import Draws, Sample
from robust_attn.predictions.tape import Node, Operation, Tape
from robust_attn.predictions.walks import (
    ROUNDING,
    FirstSketch,
    Orders,
    Streams,
    added,
    filled,
    orders,
    paired,
    there,
    walk,
)

KINDS: tuple[Kind, ...] = ("z", "w", "v")
HOPELESS = 30.0
"""A plan is given up where one remainder alone would be so many times the first order of later nodes."""
LEAST = 1e-9
"""Planned ranges are at least this much of the largest one: below there is nothing but rounding."""
CONTENTS: dict[Part, tuple[tuple[int, ...], str]] = {
    "y": ((1,), ""),
    "s": ((2,), ""),
    "h": ((3, 4), "zwv"),
    "e": ((2, 3, 4), "zwv"),
    "k": ((3, 4), "wv"),
    "c": ((4,), "v"),
    "d": ((1, 2, 3, 4), "zwv"),
}
"""What every part of a deviation consists of: orders, and streams of what remainders cause."""
UNFOLLOWED: dict[Part, tuple[tuple[int, ...], str]] = {
    "y": ((1,), ""),
    "s": ((), ""),
    "h": ((2,), "z"),
    "e": ((2,), "z"),
    "k": ((2,), "z"),
    "c": ((2,), "z"),
    "d": ((1, 2), "z"),
}
"""The same where only the second order is followed, and no products of it."""
Read = Callable[[Tensor], Tensor]
"""From logits to margins, with or without a batch axis in front."""


class Traveller(Look):
    """Goes along the tape with streams.

    The deviation is radius u + radius^2 s + radius^3 t + radius^4 q + mass^{1/2} (z + radius w + radius^2 v), each
    times a vector of norm at most one (docs/proofs/predictions.md#streams); without following no t, q, w and v.
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
        if self.plan.follow and any(each.z is not None for each in arriving):
            leaving = self._multiplied(operation, at, leaving)
        mass = self._mass(index)
        self.mass += mass
        if mass == 0:
            return leaving
        return replace(leaving, z=added(leaving.z, self.draws.injection(self._cast(axes / math.sqrt(mass)))))

    def _multiplied(self, operation: Operation, at: list[Tensor], leaving: Streams) -> Streams:
        """With D^2 f[Y, Z] in w; with D^2 f[Y, W], D^2 f[S, Z] and D^3 f[Y, Y, Z] / 2 in v."""
        zs = filled([each.z for each in self.arriving], at)
        pairs = [self._pair(slot) for slot in range(len(at))]
        left, right, second = ([each[: len(zs[0])] for each in part] for part in zip(*pairs, strict=True))
        v = added(leaving.v, operation.second(at, second, zs))
        products = [each.w for each in self.arriving]
        if any(each is not None for each in products):
            v.add_(operation.second(at, right, filled(products, at)))
        cubic = operation.third(at, left, right, zs)
        w = added(leaving.w, operation.second(at, left, zs))
        return replace(leaving, w=w, v=v if cubic is None else v.add_(cubic, alpha=1 / 2))

    @final
    def samples(self, streams: Streams) -> dict[str, Sample]:
        """z, w and v: linear in what remainders injected, and in its products with one and two first orders."""
        parts = {"z": streams.z, "w": streams.w, "v": streams.v}
        scales = [self.mass * self.plan.radius ** (2 * order) for order in range(3)]
        return {
            name: Sample(part, scale * self.draws.injected(order), scale * self.draws.injected_norms(order))
            for order, (scale, (name, part)) in enumerate(zip(scales, parts.items(), strict=True), 1)
            if part is not None
        }

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
            return Sizes(y, torch.zeros_like(s), *[s + rest[0]] * 3)
        (t, q), (z, w, v) = higher, rest
        return Sizes(y, s, t + q + z + w + v, t + q + w + v, q + v)

    def _rest(self, slot: int, measure: Callable[[Sample], Tensor], *, promised: bool = True) -> list[Tensor]:
        """Of z, of w, and of v."""
        samples = self.samples(self.arriving[slot])
        sizes = {kind: measure(samples[kind]) if kind in samples else NOTHING for kind in KINDS}
        return [self._settled(size, kind, promised=promised) for kind, size in sizes.items()]

    @final
    def norm(self, slot: int, weights: Tensor, part: Part) -> Tensor:
        """Planned and confirmed, all orders."""
        powers, names = (CONTENTS if self.plan.follow else UNFOLLOWED)[part]
        total, samples = NOTHING, self._orders(slot)
        for power in powers:
            total = total + self.plan.radius**power * samples[power - 1].norm(weights)
        for name, sample in self.samples(self.arriving[slot]).items():
            total = total + sample.norm(weights) if name in names else total
        return self._settled(total, part)

    @abstractmethod
    def _settled(self, guess: Tensor, kind: Kind, *, promised: bool = True) -> Tensor:
        """The planned size for what samples say."""

    @abstractmethod
    def _orders(self, slot: int) -> tuple[Sample, ...]:
        """Samples of the first orders."""

    @abstractmethod
    def _pair(self, slot: int) -> tuple[Tensor, Tensor, Tensor]:
        """Two lists of first orders and the second order of them, independent of what remainders inject."""

    @abstractmethod
    def _mass(self, index: int) -> float:
        """The share of this node's ellipsoid in sums: any positive number, 0 if all axes are."""

    def _cast(self, axes: Tensor) -> Tensor:
        return axes

    @final
    def margins(self, end: Streams, read: Read, ratios: Mapping[Kind, float]) -> Margins:
        """Sizes at the end."""
        by_order = (self.plan.radius**power * each for power, each in enumerate(self.sketch.margins.ranges, 1))
        z, w, v = (None if part is None else read(part.double()) for part in (end.z, end.w, end.v))
        rest = sum((each.ranges() for each in self.samples(Streams(z=z, w=w, v=v)).values()), NOTHING)
        return Margins(tuple(by_order), rest * (1 + ROUNDING), ratios)


@final
class Planner(Traveller):
    """Writes a plan, with the samples of the first sketch for all orders."""

    def __init__(
        self,
        tape: Tape,
        sketch: FirstSketch,
        plan: Plan,
        draws: Draws,
        influence: Influence,
        *,
        hopeless: float = HOPELESS,
    ) -> None:
        super().__init__(tape, sketch, plan, draws)
        self._influence, self._hopeless = influence, hopeless

    def _settled(self, guess: Tensor, kind: Kind, *, promised: bool = True) -> Tensor:  # noqa: ARG002
        self.plan.sizes.append(guess.double() * self.plan.slack[kind] + LEAST * float(guess.max()))
        return self.plan.sizes[-1]

    def _orders(self, slot: int) -> tuple[Sample, ...]:
        return self.first[slot].samples

    def _pair(self, slot: int) -> tuple[Tensor, Tensor, Tensor]:
        return *self.first[slot].pairs, self.first[slot].samples[1].tangents

    def _mass(self, index: int) -> float:
        mass = self._influence.size(index, self.plan.axes[index])
        if not mass <= self._hopeless * self.plan.radius:
            raise HopelessPlanError
        self.plan.masses[index] = mass
        return mass

    def _cast(self, axes: Tensor) -> Tensor:
        return axes.float()


@final
class Checker(Traveller):
    """Reads a plan and compares it with fresh samples."""

    def __init__(self, tape: Tape, sketch: FirstSketch, plan: Plan, draws: Draws) -> None:
        super().__init__(tape, sketch, plan, draws)
        self._written: Iterator[Tensor] = iter(plan.sizes)
        self.ratios: dict[Kind, float] = dict.fromkeys(SLACK, 0.0)
        """By kind, the largest ratio of a fresh size to the planned one; the plan holds if all are at most 1."""

    def _settled(self, guess: Tensor, kind: Kind, *, promised: bool = True) -> Tensor:
        written = next(self._written)
        if promised:
            ratio = torch.where(guess == 0, 0.0, guess * (1 + ROUNDING) / written)
            largest = math.inf if bool(ratio.isnan().any()) else float(ratio.max())
            self.ratios[kind] = max(self.ratios[kind], largest)
        return written

    def _orders(self, slot: int) -> tuple[Sample, ...]:
        return orders(self.arriving[slot], self.draws)

    def _pair(self, slot: int) -> tuple[Tensor, Tensor, Tensor]:
        left, right = paired(self.arriving[slot])
        return left, right, orders(self.arriving[slot], self.draws)[1].tangents

    def _mass(self, index: int) -> float:
        return self.plan.masses[index]


def planned(
    tape: Tape, sketch: FirstSketch, plan: Plan, draws: Draws, read: Read, *, influence: Influence
) -> tuple[Plan, Margins]:
    """The plan written, and the margins that it hopes for; HopelessPlanError where there is no hope."""
    planner = Planner(tape, sketch, plan, draws, influence)
    end = planner.travel(Streams())
    return planner.plan, planner.margins(end, read, {})


def confirmed(tape: Tape, sketch: FirstSketch, plan: Plan, draws: Draws, read: Read, *, start: Streams) -> Margins:
    """Walks with everything, fresh; the margins hold if `worst` is at most 1."""
    checker = Checker(tape, sketch, plan, draws)
    end = checker.travel(start)
    return checker.margins(end, read, checker.ratios)

"""Along a tape with sampled tangents: remainders are answered, planned sizes are written, and then confirmed."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import final

import torch
from torch import Tensor

from robust_attn.predictions.look import Look, Part, Sizes
from robust_attn.predictions.plan import NOTHING, Margins, Plan, rms, shares
from robust_attn.predictions.remainders.ellipsoids import together
from robust_attn.predictions.sketch import Draws, Sample
from robust_attn.predictions.tape import Node, Tape
from robust_attn.predictions.walks import ROUNDING, FirstSketch, Orders, Streams, first_order, second_order, there, walk

RANGE_SLACK = 3.0
"""How much larger planned ranges are than guessed ones, so that fresh samples confirm them; norms have `Plan.slack`."""
LEAST_PART, LEAST_MERGE = 0.05, 0.1


class Traveller(Look):
    """Goes along the tape with streams.

    The deviation is radius u + radius^2 s + z / weight + x / chain_weight + w, each times a vector of norm at most one
    (a different one for each, but the same along the tape; docs/proofs/predictions.md#streams).
    """

    def __init__(self, tape: Tape, sketch: FirstSketch, plan: Plan, draws: Draws) -> None:
        self.tape, self.sketch, self.plan, self.draws = tape, sketch, plan, draws
        self.weight, self.chain_weight, self.block = 1.0, 1.0, 0
        curved = [node for node in tape.nodes if node.is_curved]
        self._left = {each.block: 1.0 for each in curved}
        for each in curved:
            self._left[each.block] *= math.sqrt(1 - there(each.operation).share)
        self._merge = 1.0
        self.first: list[Orders] = []
        self.arriving: list[Streams] = []

    @final
    def travel(self, start: Streams) -> Streams:
        """The streams at the end, with w merged into x."""
        end = walk(self.tape, start, self._visit, self._turn if self.plan.follow else None)
        return self._turn(self.block + 1, end) if self.plan.follow else end

    def _visit(self, index: int, node: Node, arriving: list[Streams], leaving: Streams) -> Streams:
        self.first, self.arriving = self.sketch.inputs[index], arriving
        operation = there(node.operation)
        axes = operation.remainder(self.tape.at(node), self)
        cubic = None if self.plan.follow else operation.cubic(self.tape.at(node), self)
        axes = axes if cubic is None else together(axes, cubic)
        self.plan.axes.setdefault(index, axes)
        if self.plan.follow:
            leaving = self._with_products(node, leaving)
        share = operation.share
        self.weight *= math.sqrt(1 - share)
        self._left[node.block] /= math.sqrt(1 - share)
        injected = self.draws.injection(self._cast(axes)) * (self.weight / math.sqrt(share))
        return replace(leaving, z=injected if leaving.z is None else leaving.z + injected)

    def _with_products(self, node: Node, leaving: Streams) -> Streams:
        """w with D^2 f[y, s + z + x] + D^3 f[y, y, y] / 6."""
        at, radius, operation = self.tape.at(node), self.plan.radius, there(node.operation)
        slots = range(len(self.arriving))
        ys = [self._y(slot) for slot in slots]
        product = radius * operation.second(at, ys, [self._rest(slot, node.block) for slot in slots])
        cubic = operation.third(at, ys, *self._pairs())
        if cubic is not None:
            product = product + cubic * (radius**3 / (6 * math.sqrt(self._parts(node.block)[0])))
        return replace(leaving, w=product if leaving.w is None else leaving.w + product)

    def _rest(self, slot: int, block: int) -> Tensor:
        """s + z + x as one stream times one vector of norm at most one.

        The weight of z is the one at the end of the block, so that the vector is the same all through it.
        """
        s, z, x = self._parts(block)
        streams = self.arriving[slot]
        total = self._s(slot) * (self.plan.radius**2 / math.sqrt(s))
        if streams.z is not None:
            total = total + streams.z / (self.weight * self._left[block] * math.sqrt(z))
        return total if streams.x is None else total + streams.x / (self.chain_weight * math.sqrt(x))

    def _turn(self, block: int, streams: Streams) -> Streams:
        """Into the next block: w becomes part of x."""
        if block > self.block:
            share = self._merged(self.block, streams)
            self.block, self.chain_weight = block, self.chain_weight * math.sqrt(1 - share)
            self._merge = self.chain_weight / math.sqrt(share)
        merged = None if streams.w is None else streams.w * self._merge
        x = streams.x if merged is None else merged if streams.x is None else streams.x + merged
        return replace(streams, w=None, x=x, ys=streams.ys[1:])

    @final
    def samples(self, streams: Streams) -> tuple[Sample | None, ...]:
        """z, x and w with the factors of their orders.

        z is linear in remainders; every block multiplies by one first order more, beginning with pairs.
        """
        z, x, w = streams.z, streams.x, streams.w
        return (
            None if z is None else Sample(z, self.draws.chain(1) / self.weight**2),
            None if x is None else Sample(x, self.draws.chain(self.block + 2) / self.chain_weight**2),
            None if w is None else Sample(w, self.draws.chain(self.block + 3)),
        )

    @final
    def ranges(self, slot: int) -> Sizes:
        """Sound for the first two orders, planned and confirmed for the rest."""
        return self._joined(self.first[slot].ranges, self._third(slot, Sample.ranges))

    @final
    def rows(self) -> Sizes:
        """As the ranges."""
        weights = there(self.first[0].row_weights)
        return self._joined(there(self.first[0].rows), self._third(0, lambda sample: sample.rows(weights)))

    @final
    def shape(self, slot: int) -> Sizes:
        """As planned, not confirmed."""
        return self._joined(self.first[slot].ranges, self._third(slot, Sample.ranges, promised=False))

    def _joined(self, orders: tuple[Tensor, ...], third: list[Tensor]) -> Sizes:
        rest = self.plan.radius**2 * orders[1] + third[0] + third[1]
        return Sizes(self.plan.radius * orders[0], rest, third[1].expand_as(rest) if self.plan.follow else rest)

    def _third(self, slot: int, measure: Callable[[Sample], Tensor], *, promised: bool = True) -> list[Tensor]:
        """Of z + x, and of w."""
        z, x, w = (NOTHING if each is None else measure(each) for each in self.samples(self.arriving[slot]))
        return [self._settled(each, RANGE_SLACK, promised=promised) for each in (z + x, w)]

    @final
    def norm(self, slot: int, weights: Tensor, part: Part) -> Tensor:
        """Planned and confirmed, all orders."""
        total, (y, s), third = NOTHING, self._orders(slot), self.samples(self.arriving[slot])
        wanted = part if self.plan.follow or part != "c" else "e"
        if wanted in "yd":
            total = total + self.plan.radius * y.norm(weights)
        if wanted in "ed":
            total = total + self.plan.radius**2 * s.norm(weights)
        for each in third[2:] if wanted == "c" else () if wanted == "y" else third:
            total = total if each is None else total + each.norm(weights)
        return self._settled(total, self.plan.slack)

    @abstractmethod
    def _settled(self, guess: Tensor, slack: float, *, promised: bool = True) -> Tensor:
        """The planned size for what samples say."""

    @abstractmethod
    def _orders(self, slot: int) -> tuple[Sample, Sample]:
        """Samples of first and second order."""

    @abstractmethod
    def _y(self, slot: int) -> Tensor:
        """First order that is independent of everything else in this block."""

    @abstractmethod
    def _pairs(self) -> tuple[list[Tensor], list[Tensor]]:
        """The first orders u and v behind the second order."""

    @abstractmethod
    def _s(self, slot: int) -> Tensor:
        """Second order."""

    @abstractmethod
    def _parts(self, block: int) -> tuple[float, float, float]:
        """Squared weights of s, z and x in this block."""

    @abstractmethod
    def _merged(self, block: int, streams: Streams) -> float:
        """Squared weight of w beside x."""

    def _cast(self, axes: Tensor) -> Tensor:
        return axes

    @final
    def margins(self, end: Streams, rivals: Tensor, worst: float) -> Margins:
        """Sizes at the end."""
        radius, orders = self.plan.radius, self.sketch.margins.ranges
        last = Streams(z=there(end.z).double() @ rivals.T, x=None if end.x is None else end.x.double() @ rivals.T)
        rest = sum((NOTHING if each is None else each.ranges() for each in self.samples(last)), NOTHING)
        return Margins(radius * orders[0], radius**2 * orders[1], rest * (1 + ROUNDING), worst)


@final
class Planner(Traveller):
    """Writes a plan, with the samples of the first sketch for everything of first and second order."""

    def _settled(self, guess: Tensor, slack: float, *, promised: bool = True) -> Tensor:  # noqa: ARG002
        self.plan.sizes.append(guess.double() * slack)
        return self.plan.sizes[-1]

    def _orders(self, slot: int) -> tuple[Sample, Sample]:
        return self.first[slot].y, self.first[slot].s

    def _y(self, slot: int) -> Tensor:
        return self.first[slot].u.roll(5 * (self.block + 1), 0)

    def _pairs(self) -> tuple[list[Tensor], list[Tensor]]:
        u = [each.u for each in self.first]
        return u, [each.roll(1, 0) for each in u]

    def _s(self, slot: int) -> Tensor:
        return self.first[slot].s.tangents

    def _parts(self, block: int) -> tuple[float, float, float]:
        if block not in self.plan.parts:
            streams, second = self.arriving[0], rms(self._s(0)) * self.plan.radius**2
            sizes = second, rms(streams.z) / self.weight, rms(streams.x) / self.chain_weight
            s, z, x = shares(*sizes, least=LEAST_PART)
            self.plan.parts[block] = s, z, x
        return self.plan.parts[block]

    def _merged(self, block: int, streams: Streams) -> float:
        sizes = rms(streams.w), rms(streams.x) / self.chain_weight
        self.plan.merges[block] = shares(*sizes, least=LEAST_MERGE)[0]
        return self.plan.merges[block]

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

    def _orders(self, slot: int) -> tuple[Sample, Sample]:
        streams = self.arriving[slot]
        return first_order(streams, self.draws), Sample(second_order(streams), self.draws.pair)

    def _y(self, slot: int) -> Tensor:
        return self.arriving[slot].ys[0]

    def _pairs(self) -> tuple[list[Tensor], list[Tensor]]:
        return [there(each.u) for each in self.arriving], [there(each.v) for each in self.arriving]

    def _s(self, slot: int) -> Tensor:
        return second_order(self.arriving[slot])

    def _parts(self, block: int) -> tuple[float, float, float]:
        return self.plan.parts[block]

    def _merged(self, block: int, streams: Streams) -> float:  # noqa: ARG002
        return self.plan.merges[block]


def planned(tape: Tape, sketch: FirstSketch, plan: Plan, draws: Draws, rivals: Tensor) -> tuple[Plan, Margins]:
    """The plan written, and the margins that it hopes for."""
    planner = Planner(tape, sketch, plan, draws)
    end = planner.travel(Streams())
    return planner.plan, planner.margins(end, rivals, math.inf)


def confirmed(tape: Tape, sketch: FirstSketch, plan: Plan, draws: Draws, rivals: Tensor, *, free: Tensor) -> Margins:
    """Walks with everything, fresh; the margins hold if `worst` is at most 1."""
    checker = Checker(tape, sketch, plan, draws)
    u, v = draws.tangents(free)
    blocks = 1 + max(node.block for node in tape.nodes) if plan.follow else 0
    ys = tuple(draws.tangents(free)[0] for _ in range(blocks))
    end = checker.travel(Streams(u, v, b=draws.basis(free), ys=ys))
    return checker.margins(end, rivals, checker.worst)

"""Walks along a tape with sampled tangents, and the first sketch: sizes of first and second order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from robust_attn.predictions.sketch import Draws, Sample
from robust_attn.predictions.tape import Node, Tape

T = TypeVar("T")
ROUNDING = 1e-6
"""Relative allowance that every upper value gets for rounding."""


@dataclass(frozen=True, eq=False)
class Streams:
    """Sampled tangents of one node.

    b: first order along all unit vectors; u, v, y: along independent samples; s: second order of the pairs (u, v); t:
    third order of (y, u, v); z: what remainders injected; w: products of the first order y with z.
    """

    u: Tensor | None = None
    v: Tensor | None = None
    y: Tensor | None = None
    s: Tensor | None = None
    t: Tensor | None = None
    z: Tensor | None = None
    w: Tensor | None = None
    b: Tensor | None = None


Visit = Callable[[int, Node, list[Streams], Streams], Streams]
"""At curved nodes: the streams that arrive and the ones that leave; returns the latter, perhaps with more."""


def walk(tape: Tape, start: Streams, visit: Visit) -> Streams:
    """The streams at the last node."""
    live, last = {0: start}, tape.last_use
    for index, node in enumerate(tape.nodes):
        if node.operation is None:
            continue
        arriving = [live[parent] for parent in node.parents]
        leaving = _through(tape, node, arriving)
        live[index] = visit(index, node, arriving, leaving) if node.is_curved else leaving
        for parent in set(node.parents):
            if last[parent] <= index:
                live.pop(parent, None)
    return live[len(tape.nodes) - 1]


def _through(tape: Tape, node: Node, arriving: list[Streams]) -> Streams:
    at, operation = tape.at(node), there(node.operation)

    def pushed(parts: list[Tensor | None]) -> Tensor | None:
        present = [part for part in parts if part is not None]
        return None if not present else operation.first(at, filled(parts, at))

    u, v, y, s, t, z, w, b = (pushed([getattr(each, name) for each in arriving]) for name in "uvystzwb")
    if u is not None and node.is_curved:
        firsts = [[there(getattr(each, name)) for each in arriving] for name in ("uv" if y is None else "uvy")]
        s = added(s, operation.second(at, firsts[0], firsts[1]) / 2)
        seconds = [each.s for each in arriving]
        if y is not None and any(each is not None for each in seconds):
            t = added(t, operation.second(at, firsts[2], filled(seconds, at)))
        cubic = None if y is None else operation.third(at, firsts[2], firsts[0], firsts[1])
        t = t if cubic is None else added(t, cubic / 6)
    return Streams(u, v, y, s, t, z, w, b)


def added(total: Tensor | None, more: Tensor) -> Tensor:
    """The sum, where nothing counts as zero."""
    return more if total is None else total + more


def filled(parts: list[Tensor | None], at: list[Tensor]) -> list[Tensor]:
    """The parts of the inputs, zeros where there is nothing yet."""
    like = next(part for part in parts if part is not None)
    zeros = [torch.zeros((len(like), *value.shape), dtype=like.dtype) for value in at]
    return [zero if part is None else part for part, zero in zip(parts, zeros, strict=True)]


def there(part: T | None) -> T:
    """The part, which is there."""
    assert part is not None
    return part


@dataclass(frozen=True, eq=False)
class Orders:
    """First, second and (where products are followed) third order of one tensor.

    `ranges` and `rows`: sound sizes per power of the radius; `samples`: to plan with; `y`: one list of first orders.
    """

    y: Tensor
    samples: tuple[Sample, ...]
    ranges: tuple[Tensor, ...]
    rows: tuple[Tensor, ...] | None
    row_weights: Tensor | None

    @classmethod
    def of(cls, streams: Streams, draws: Draws, keep: int | None = None, row_weights: Tensor | None = None) -> Orders:
        """From the streams of a sketch that nothing else depends on; that many samples are kept to plan with."""
        all_orders = orders(streams, draws)
        ranges = tuple(sample.ranges() * (1 + ROUNDING) for sample in all_orders)
        rows = None
        if row_weights is not None:
            rows = tuple(sample.rows(row_weights) * (1 + ROUNDING) for sample in all_orders)
        kept = tuple(each.thinned(None if streams.b is not None and each is all_orders[0] else keep) for each in all_orders)
        return cls(there(streams.u)[:keep].float(), kept, ranges, rows, row_weights)


def orders(streams: Streams, draws: Draws) -> tuple[Sample, ...]:
    """Samples of the first order, of the second and, if y is there, of the third."""
    nothing = torch.zeros_like(there(streams.u))
    second = Sample(nothing if streams.s is None else streams.s, draws.chain(2))
    both = first_order(streams, draws), second
    return both if streams.y is None else (*both, Sample(nothing if streams.t is None else streams.t, draws.chain(3)))


def first_order(streams: Streams, draws: Draws) -> Sample:
    """All unit vectors, or all independent samples together."""
    if streams.b is not None:
        return Sample(streams.b, 1.0)
    lists = [each for each in (streams.u, streams.v, streams.y) if each is not None]
    return Sample(torch.cat(lists), draws.linear(len(lists)))


@dataclass(frozen=True, eq=False)
class FirstSketch:
    """The orders of everything that reaches a curved operation, and of the margins at the end."""

    inputs: dict[int, list[Orders]]
    margins: Orders

    @classmethod
    def of(
        cls, tape: Tape, start: Streams, draws: Draws, margins: Callable[[Tensor], Tensor], *, keep: int | None = None
    ) -> FirstSketch:
        """`margins` takes logits to margins; `keep` samples of everything are kept, or all."""
        inputs: dict[int, list[Orders]] = {}

        def visit(index: int, node: Node, arriving: list[Streams], leaving: Streams) -> Streams:
            weights = [there(node.operation).row_weights(tape.at(node)), *[None] * (len(arriving) - 1)]
            inputs[index] = [Orders.of(each, draws, keep, rows) for each, rows in zip(arriving, weights, strict=True)]
            return leaving

        end = walk(tape, start, visit)
        parts = {name: getattr(end, name) for name in "uvystb"}
        final = Streams(**{name: None if part is None else margins(part) for name, part in parts.items()})
        return cls(inputs, Orders.of(final, draws))


def started(draws: Draws, free: Tensor, *, follow: bool) -> Streams:
    """Fresh first orders at the input; the third, y, where products are followed."""
    u, v = draws.tangents(free)
    return Streams(u, v, draws.tangents(free)[0] if follow else None, b=draws.basis(free))

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

    b: first order along all unit vectors; u, v: along samples; s: second order of the pairs (u, v); z: what remainders
    injected; w: products of first order with s, z and x inside the present block of layers; x: those of the blocks
    before; ys: independent first orders, for the present block and those to come.
    """

    u: Tensor | None = None
    v: Tensor | None = None
    s: Tensor | None = None
    z: Tensor | None = None
    w: Tensor | None = None
    x: Tensor | None = None
    b: Tensor | None = None
    ys: tuple[Tensor, ...] = ()


Visit = Callable[[int, Node, list[Streams], Streams], Streams]
"""At curved nodes: the streams that arrive and the ones that leave; returns the latter, perhaps with more."""
Turn = Callable[[int, Streams], Streams]
"""At the first node of a block: what becomes of every stream that is alive."""


def walk(tape: Tape, start: Streams, visit: Visit, turn: Turn | None = None) -> Streams:
    """The streams at the last node."""
    live, last, block = {0: start}, tape.last_use, 0
    for index, node in enumerate(tape.nodes):
        if node.operation is None:
            continue
        if turn is not None and node.block > block:
            live = {each: turn(node.block, streams) for each, streams in live.items()}
            block = node.block
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
        if not present:
            return None
        zeros = [torch.zeros((len(present[0]), *value.shape), dtype=present[0].dtype) for value in at]
        return operation.first(at, [zero if part is None else part for part, zero in zip(parts, zeros, strict=True)])

    u, v, s, z, w, x, b = (pushed([getattr(each, name) for each in arriving]) for name in "uvszwxb")
    if u is not None and node.is_curved:
        bent = operation.second(at, [there(each.u) for each in arriving], [there(each.v) for each in arriving]) / 2
        s = bent if s is None else s + bent
    ys = tuple(operation.first(at, parts) for parts in zip(*(each.ys for each in arriving), strict=True))
    return Streams(u, v, s, z, w, x, b, ys)


def there(part: T | None) -> T:
    """The part, which is there."""
    assert part is not None
    return part


@dataclass(frozen=True, eq=False)
class Orders:
    """First and second order of one tensor: sound sizes per unit of the radius, and samples to plan with."""

    u: Tensor
    y: Sample
    s: Sample
    ranges: tuple[Tensor, ...]
    rows: tuple[Tensor, ...] | None
    row_weights: Tensor | None

    @classmethod
    def of(cls, streams: Streams, draws: Draws, keep: int | None = None, row_weights: Tensor | None = None) -> Orders:
        """From the streams of a sketch that nothing else depends on; that many samples are kept to plan with."""
        both = first_order(streams, draws), Sample(second_order(streams), draws.pair)
        ranges = tuple(sample.ranges() * (1 + ROUNDING) for sample in both)
        rows = None if row_weights is None else tuple(sample.rows(row_weights) * (1 + ROUNDING) for sample in both)
        u, s = there(streams.u)[:keep].float(), both[1].thinned(keep)
        y = (
            both[0].thinned(None)
            if streams.b is not None
            else Sample(u, both[0].factor * len(both[0].tangents) / len(u))
        )
        return cls(u, y, s, ranges, rows, row_weights)


def first_order(streams: Streams, draws: Draws) -> Sample:
    """All unit vectors, or samples u and v."""
    if streams.b is not None:
        return Sample(streams.b, 1.0)
    return Sample(torch.cat([there(streams.u), there(streams.v)]), draws.linear())


def second_order(streams: Streams) -> Tensor:
    """The stream s, zero before the first curved operation."""
    return torch.zeros_like(there(streams.u)) if streams.s is None else streams.s


@dataclass(frozen=True, eq=False)
class FirstSketch:
    """First and second order of everything that reaches a curved operation, and of the margins at the end."""

    inputs: dict[int, list[Orders]]
    margins: Orders

    @classmethod
    def of(cls, tape: Tape, free: Tensor, draws: Draws, rivals: Tensor, *, keep: int | None = None) -> FirstSketch:
        """`rivals` [margins, classes] takes logits to margins; `keep` samples of everything are kept, or all."""
        inputs: dict[int, list[Orders]] = {}

        def visit(index: int, node: Node, arriving: list[Streams], leaving: Streams) -> Streams:
            weights = [there(node.operation).row_weights(tape.at(node)), *[None] * (len(arriving) - 1)]
            inputs[index] = [Orders.of(each, draws, keep, rows) for each, rows in zip(arriving, weights, strict=True)]
            return leaving

        u, v = draws.tangents(free)
        end = walk(tape, Streams(u, v, b=draws.basis(free)), visit)
        u, v, s = (there(part) @ rivals.T for part in (end.u, end.v, second_order(end)))
        final = Streams(u, v, s, b=None if end.b is None else end.b @ rivals.T)
        return cls(inputs, Orders.of(final, draws))

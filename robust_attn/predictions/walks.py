"""Walks along a tape with sampled tangents, and the first sketch: sizes of first and second order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from robust_attn.predictions.sketch import Draws, Sample
from robust_attn.predictions.tape import Node, Operation, Tape

T = TypeVar("T")
ROUNDING = 1e-6
"""Relative allowance that every upper value gets for rounding."""


@dataclass(frozen=True, eq=False)
class Streams:
    """Sampled tangents of one node.

    b: first order along all unit vectors; u: along samples, in two or four lists of independent ones, in the order 1, 2
    or 1, 3, 2, 4; s: second order of the first list with the second, then of the third with the fourth; t: third order
    of the lists 2, 3, 4; q: fourth order of all four; z: what remainders injected, as many as two lists; w: its
    products with lists 1 and 3; v: with s.
    """

    u: Tensor | None = None
    s: Tensor | None = None
    t: Tensor | None = None
    q: Tensor | None = None
    z: Tensor | None = None
    w: Tensor | None = None
    v: Tensor | None = None
    b: Tensor | None = None
    lists: int = 4


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
        return operation.first(at, filled(parts, at)) if any(part is not None for part in parts) else None

    u, s, t, q, z, w, v, b = (pushed([getattr(each, name) for each in arriving]) for name in "ustqzwvb")
    streams = Streams(u, s, t, q, z, w, v, b, arriving[0].lists)
    return _bent(operation, at, arriving, streams) if node.is_curved and streams.u is not None else streams


def _bent(operation: Operation, at: list[Tensor], arriving: list[Streams], pushed: Streams) -> Streams:
    """With D^2 f[Y, Y] / 2, and with four lists what belongs to the third and the fourth order."""
    left, right = (list(each) for each in zip(*(paired(each) for each in arriving), strict=True))
    s = added(pushed.s, operation.second(at, left, right).div_(2))
    if pushed.lists == 2:
        return replace(pushed, s=s)
    along = [there(each.u).chunk(each.lists) for each in arriving]
    g = [[chunks[place] for chunks in along] for place in (0, 2, 1, 3)]
    first, second = (
        list(each) for each in zip(*(x.chunk(2) for x in filled([x.s for x in arriving], at, left)), strict=True)
    )
    third = filled([x.t for x in arriving], at, g[0])
    t = added(pushed.t, operation.second(at, g[1], second))
    q = added(pushed.q, operation.second(at, g[0], third))
    q.add_(operation.second(at, first, second), alpha=1 / 2)
    cubic = operation.third(at, g[1], g[2], g[3])
    if cubic is not None:
        t.add_(cubic, alpha=1 / 6)
        q.add_(there(operation.third(at, g[0], g[1], second)), alpha=1 / 2)
    quartic = operation.fourth(at, *g)
    return replace(pushed, s=s, t=t, q=q if quartic is None else q.add_(quartic, alpha=1 / 24))


def added(total: Tensor | None, more: Tensor) -> Tensor:
    """The sum, in place of the second, where nothing counts as zero."""
    return more if total is None else more.add_(total)


def filled(parts: Sequence[Tensor | None], at: list[Tensor], like: list[Tensor] | None = None) -> list[Tensor]:
    """The parts of the inputs, zeros where there is nothing yet: as many as `like` has, or as another part."""
    one = like[0] if like is not None else next(part for part in parts if part is not None)
    return [
        torch.zeros((len(one), *value.shape), dtype=one.dtype) if part is None else part
        for part, value in zip(parts, at, strict=True)
    ]


def there(part: T | None) -> T:
    """The part, which is there."""
    assert part is not None
    return part


@dataclass(frozen=True, eq=False)
class Orders:
    """The first two orders of one tensor, or (where products are followed) the first four.

    `ranges` and `rows`: sound sizes per power of the radius; `samples`: to plan with; `pairs`: some pairs of first
    orders, the same as those of the samples of the second order.
    """

    pairs: tuple[Tensor, Tensor]
    samples: tuple[Sample, ...]
    ranges: tuple[Tensor, ...]
    rows: tuple[Tensor, ...] | None
    row_weights: Tensor | None

    @classmethod
    def of(cls, streams: Streams, draws: Draws, keep: int | None = None, row_weights: Tensor | None = None) -> Orders:
        """From the streams of a sketch that nothing else depends on; that many samples are kept to plan with."""
        exact, *sampled = orders(streams, draws)
        ranges = tuple(sample.ranges() * (1 + ROUNDING) for sample in (exact, *sampled))
        rows = None
        if row_weights is not None:
            rows = tuple(sample.rows(row_weights) * (1 + ROUNDING) for sample in (exact, *sampled))
        first = exact.thinned(keep if streams.b is None else None)
        kept = first, *(sample.thinned(keep) for sample in sampled)
        left, right = (each[:keep] for each in paired(streams))
        shared = kept[0].tangents if streams.b is None and len(kept[0].tangents) == len(left) else left.float()
        return cls((shared, right.float()), kept, ranges, rows, row_weights)


def paired(streams: Streams) -> tuple[Tensor, Tensor]:
    """First orders of the pairs behind the second order: lists 1 and 3, and lists 2 and 4."""
    left, right = there(streams.u).chunk(2)
    return left, right


def orders(streams: Streams, draws: Draws) -> tuple[Sample, ...]:
    """Samples of the first and the second order and, with four lists, of the third and the fourth."""
    u, lists = there(streams.u), streams.lists
    first = draws.sample(u, 1, lists) if streams.b is None else Sample(streams.b, 1.0)
    count = len(u) // lists
    second = draws.sample(_or_zeros(streams.s, u[: count * lists // 2]), 2, lists // 2)
    if lists == 2:
        return first, second
    higher = (draws.sample(_or_zeros(part, u[:count]), order, 1) for part, order in ((streams.t, 3), (streams.q, 4)))
    return first, second, *higher


def _or_zeros(part: Tensor | None, like: Tensor) -> Tensor:
    return torch.zeros_like(like) if part is None else part


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
        u, s, t, q, b = (None if part is None else margins(part) for part in (end.u, end.s, end.t, end.q, end.b))
        return cls(inputs, Orders.of(Streams(u, s, t, q, b=b, lists=end.lists), draws))


def started(draws: Draws, free: Tensor) -> Streams:
    """Fresh first orders at the input."""
    return Streams(draws.tangents(free), b=draws.basis(free), lists=draws.lists)

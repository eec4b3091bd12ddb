"""Products with an attention layer's derivative at lengths where the attention weights cannot be kept.

Head by head and tile by tile, so that a tile of weights stays in the cache however long the rows are: a matrix product,
one exponential, one product by entries, and two or three matrix products that leave. What no row of a tile sees is not
looked at. Fields are stored by coordinates, because products with them are then twice as fast (docs/engine.md).

Weights are E_ij = 2^(t_ij - max_k t_ik), t = s / log 2, and P_ij = E_ij / sum_k E_ik: powers of two take half the time
of exponentials. The largest logit and the sum of a row are kept from the first pass, and every later one multiplies the
same tiles, so that rows of P sum to one to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from robust_attn.attention.mask import Visibility

TILE_ROWS, TILE_COLUMNS = 192, 768
"""Attention weights of one head in flight at once: 1.2 MB in float64, small enough for a cache."""
EDGE_ROWS = 64
"""Rows in flight where some columns are hidden from some of them: a tile takes in what its last row sees."""
LINE = 8
"""Numbers of float64 in a line of the cache."""


@dataclass(frozen=True)
class Tile:
    """Rows and columns of one sample, and whether some of these columns may be hidden from some of these rows."""

    rows: slice
    columns: slice
    edge: bool

    def hidden(self, mask: Visibility, positions: Int[Tensor, "n"]) -> Tensor | None:
        """Which of the columns are hidden from which of the rows; None if none is."""
        return mask.hides(positions[self.rows, None], positions[None, self.columns]) if self.edge else None

    def of(self, room: Tensor) -> Float[Tensor, "rows columns"]:
        """The beginning of a piece of memory in this tile's shape."""
        height, width = _length(self.rows), _length(self.columns)
        return room[: height * width].view(height, width)


@dataclass(frozen=True, eq=False)
class Streamed:
    """Attention weights of every head of every sample, recomputed tile by tile; `inverse` is zero for a row that
    sees nobody. Heads of all samples are in front, one after another; `shift` is in powers of two."""

    q: Float[Tensor, "maps n width"]
    keys: Float[Tensor, "maps width n"]
    values: Float[Tensor, "maps value_width n"]
    masses: Float[Tensor, "samples n"]
    equal: bool
    positions: Int[Tensor, "samples n"]
    mask: Visibility
    scale: float
    shift: Float[Tensor, "maps n 1"]
    inverse: Float[Tensor, "maps n 1"]
    mean: Float[Tensor, "maps n value_width"]

    @classmethod
    def of(
        cls,
        q: Float[Tensor, "maps n width"],
        keys: Float[Tensor, "maps width n"],
        values: Float[Tensor, "maps value_width n"],
        *,
        masses: Float[Tensor, "samples n"],
        positions: Int[Tensor, "samples n"],
        mask: Visibility,
        scale: float,
    ) -> Streamed:
        """Passes over all weights for the largest logit of every row, and for its sum and mean value."""
        equal = bool((masses == masses[:, :1]).all())
        shift = q.new_full((*q.shape[:-1], 1), -math.inf)
        mean = q.new_empty(*q.shape[:-1], values.shape[-2])
        q = q.contiguous()
        found = cls(q, keys, values, masses, equal, positions, mask, scale, shift, torch.zeros_like(shift), mean)
        found._first_passes()
        return found

    def push(
        self,
        dq: Float[Tensor, "maps n width"],
        dk: Float[Tensor, "maps width n"],
        dv: Float[Tensor, "maps value_width n"],
    ) -> Float[Tensor, "maps n value_width"]:
        """How the means move with queries, keys and values."""
        mixed, bent, drift = _nothing(self.values), _nothing(self.values), torch.zeros_like(self.inverse)
        dq, room = dq.contiguous(), self._room()
        for head in range(len(self.q)):
            fields = (self.q, self.keys, self.values, dq, dk, dv, mixed, bent, drift)
            q, keys, values, moved_q, moved_keys, moved_values, mix, bend, drawn = (each[head] for each in fields)
            for tile, weights in self._weights(head):
                rows, columns, slope = tile.rows, tile.columns, tile.of(room)
                torch.mm(moved_q[rows], keys[:, columns], out=slope)
                slope.addmm_(q[rows], moved_keys[:, columns]).mul_(weights)
                drawn[rows] += slope.sum(-1, keepdim=True)
                bend[:, rows].addmm_(values[:, columns], slope.mT)
                mix[:, rows].addmm_(moved_values[:, columns], weights.mT)
        pull = bent.mT - drift * self.mean  # both large where logits are: they meet first
        return pull.mul_(self.scale).add_(mixed.mT).mul_(self.inverse)

    def pull(self, cotangent: Float[Tensor, "maps n value_width"]) -> tuple[Tensor, Tensor, Tensor]:
        """The transpose of `push`: gradients of queries, and of keys and values by coordinates."""
        dq, dk, dv = _nothing(self.keys), _nothing(self.keys), _nothing(self.values)
        centres, room = -(cotangent * self.mean).sum(-1, keepdim=True), self._room()
        cotangent, drawn = cotangent.contiguous(), cotangent * self.inverse
        scaled = self.q * (self.inverse * self.scale)
        for head in range(len(self.q)):
            fields = (self.keys, self.values, cotangent, centres, scaled.mT, drawn.mT, dq, dk, dv)
            keys, values, here, centre, q, parts, to_q, to_keys, to_values = (each[head] for each in fields)
            for tile, weights in self._weights(head):
                rows, columns, slope = tile.rows, tile.columns, tile.of(room)
                torch.addmm(centre[rows], here[rows], values[:, columns], out=slope).mul_(weights)
                to_q[:, rows].addmm_(keys[:, columns], slope.mT)
                to_keys[:, columns].addmm_(q[:, rows], slope)
                to_values[:, columns].addmm_(parts[:, rows], weights)
        return dq.mT * (self.inverse * self.scale), dk, dv

    def row_means(self, fields: Float[Tensor, "maps some n"]) -> Float[Tensor, "maps n some"]:
        """sum_j P_ij z_j of every row i."""
        found = torch.zeros_like(fields)
        for head, (field, here) in enumerate(zip(fields, found, strict=True)):
            for tile, weights in self._weights(head):
                here[:, tile.rows].addmm_(field[:, tile.columns], weights.mT)
        return found.mT * self.inverse

    def column_sums(self, parts: Float[Tensor, "maps n"]) -> Float[Tensor, "maps n"]:
        """sum_i c_i P_ij of every column j."""
        found = torch.zeros_like(parts)
        for head, (part, here) in enumerate(zip(parts * self.inverse[..., 0], found, strict=True)):
            for tile, weights in self._weights(head):
                here[tile.columns].addmv_(weights.mT, part[tile.rows])
        return found

    @property
    def log_total(self) -> Float[Tensor, "maps n"]:
        """log sum_j m_j exp(s_ij) of every row; minus infinity for one that sees nobody."""
        found = torch.where(self.inverse > 0, self.shift * math.log(2) - self.inverse.log(), -math.inf)[..., 0]
        return found + self.masses[:, :1].log().repeat_interleave(self._heads, dim=0) if self.equal else found

    @property
    def _heads(self) -> int:
        return self.q.shape[0] // self.positions.shape[0]

    def _first_passes(self) -> None:
        mean = _nothing(self.values)
        for head in range(len(self.q)):
            shift, total = self.shift[head], self.inverse[head]
            for tile, logits in self._logits(head):
                torch.maximum(shift[tile.rows], logits.amax(-1, keepdim=True), out=shift[tile.rows])
            shift.masked_fill_(shift == -math.inf, 0.0)
            for tile, weights in self._weights(head):
                total[tile.rows] += weights.sum(-1, keepdim=True)
                mean[head, :, tile.rows].addmm_(self.values[head, :, tile.columns], weights.mT)
        self.inverse.copy_(torch.where(self.inverse == 0, 0.0, 1 / self.inverse))
        torch.mul(mean.mT, self.inverse, out=self.mean)

    def _weights(self, head: int) -> Iterator[tuple[Tile, Float[Tensor, "rows columns"]]]:
        """E of every tile, not yet divided by the sums of its rows; gone when the next tile is asked for."""
        shift = self.shift[head]
        for tile, logits in self._logits(head):
            # Not subtracted inside of the product: at huge logits the largest would no longer cancel.
            yield tile, logits.sub_(shift[tile.rows]).exp2_()

    def _logits(self, head: int) -> Iterator[tuple[Tile, Float[Tensor, "rows columns"]]]:
        """Logits over log 2 of every tile, minus infinity where a column is hidden."""
        sample, room = head // self._heads, self._room()
        q, keys, weights = self.q[head] * (self.scale / math.log(2)), self.keys[head], self.masses[sample].log2()
        for tile, hidden in self._tiles[sample]:
            logits = torch.mm(q[tile.rows], keys[:, tile.columns], out=tile.of(room))
            if not self.equal:  # equal ones drop out of every row
                logits += weights[tile.columns]
            yield tile, logits if hidden is None else logits.masked_fill_(hidden, -math.inf)

    def _room(self) -> Tensor:
        """One tile, written again and again."""
        return self.q.new_empty(TILE_ROWS * TILE_COLUMNS)

    @cached_property
    def _tiles(self) -> list[list[tuple[Tile, Tensor | None]]]:
        """The tiles of every sample that somebody sees, with what is hidden in them."""
        found = []
        for positions in self.positions:
            each = tiles(self.mask, positions)
            found.append([(tile, tile.hidden(self.mask, positions)) for tile in each])
        return found


def by_coordinates(field: Float[Tensor, "*batch n width"]) -> Float[Tensor, "*batch width n"]:
    """A copy, one coordinate after another, at distances that are no power of two: those would share cache lines."""
    found = _apart(field, field.shape[-1], field.shape[-2])
    return found.copy_(field.mT)


def _nothing(like: Float[Tensor, "maps width n"]) -> Float[Tensor, "maps width n"]:
    """A field of zeros by coordinates."""
    return _apart(like, *like.shape[-2:]).zero_()


def _apart(like: Tensor, width: int, length: int) -> Float[Tensor, "*batch width n"]:
    return like.new_empty(*like.shape[:-2], width, -(-length // (8 * LINE)) * 8 * LINE + 5 * LINE)[..., :length]


def _length(span: slice) -> int:
    return span.stop - span.start


def tiles(mask: Visibility, positions: Int[Tensor, "n"]) -> list[Tile]:
    """Rows and columns such that a row sees a column in exactly one tile or not at all.

    Columns that all rows of a block see are taken by whole blocks of rows, from one line of the cache to another; those
    at the edges, which only some of them see, by fewer rows at a time.
    """
    found = []
    for rows in _spans(0, positions.shape[0], TILE_ROWS):
        columns, surely = seen_columns(mask, positions, rows)
        start = min(-(-surely.start // LINE) * LINE, surely.stop)
        stop = max(surely.stop // LINE * LINE, start) if surely.stop < columns.stop else surely.stop
        found += [Tile(rows, part, edge=False) for part in _spans(start, stop, TILE_COLUMNS)]
        for few in _spans(rows.start, rows.stop, EDGE_ROWS):
            seen, _ = seen_columns(mask, positions, few)
            before, after = (seen.start, min(seen.stop, start)), (max(seen.start, stop), seen.stop)
            parts = (part for edge in (before, after) for part in _spans(*edge, TILE_COLUMNS))
            found += [Tile(few, part, edge=True) for part in parts]
    return found


def _spans(start: int, stop: int, size: int) -> list[slice]:
    """Consecutive slices from `start` to `stop`, `size` long but for the last."""
    return [slice(first, min(first + size, stop)) for first in range(start, stop, size)]


def seen_columns(mask: Visibility, positions: Int[Tensor, "n"], rows: slice) -> tuple[slice, slice]:
    """Columns outside of which no row of a block sees anything, and columns inside that all of its rows see.

    Where positions are not in order, that is all columns and none of them.
    """
    length, (back, ahead) = positions.shape[0], mask.reach
    if back == math.inf and ahead == math.inf:
        return slice(0, length), slice(0, length)
    if bool((positions.diff() < 0).any()):
        return slice(0, length), slice(0, 0)
    first, last = int(positions[rows.start]), int(positions[rows.stop - 1])
    ordered = positions.double()

    def place(position: float, *, right: bool) -> int:
        return int(torch.searchsorted(ordered, ordered.new_tensor(position), right=right))

    columns = slice(place(first - back, right=False), place(last + ahead, right=True))
    inner = place(last - back, right=False)
    return columns, slice(inner, max(inner, place(first + ahead, right=True)))

"""Products with an attention layer's derivative at lengths where the attention weights cannot be kept.

Head by head and a few rows at a time, so that a block of weights stays in the cache: a matrix product, one exponential,
one product by entries, and two or three matrix products that leave. Columns that no row of a block sees are not looked
at. Keys and values are stored by coordinates, because products with them are then twice as fast (docs/engine.md).

Weights are E_ij = exp(s_ij - max_k s_ik) and P_ij = E_ij / sum_k E_ik. The largest logit and the sum of a row are kept
from the first pass, and every later one multiplies the same blocks, so that rows of P sum to one to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from robust_attn.attention.mask import Visibility

BLOCK_ENTRIES = 2**19
"""Attention weights of one head in flight at once: 4 MB in float64, small enough for a cache."""
BLOCK_ROWS = 128
"""Rows in flight at most: under a causal mask a block takes in what its last row sees."""


@dataclass(frozen=True)
class Block:
    """Rows of one head of one sample, the columns that they may see, and those among these that all of them see."""

    head: int
    sample: int
    rows: slice
    columns: slice
    surely: slice


@dataclass(frozen=True, eq=False)
class Streamed:
    """Attention weights of every head of every sample, recomputed block by block; `inverse` is zero for a row that
    sees nobody. Heads of all samples are in front, one after another."""

    q: Float[Tensor, "maps n width"]
    keys: Float[Tensor, "maps width n"]
    values: Float[Tensor, "maps value_width n"]
    log_masses: Float[Tensor, "samples n"]
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
        """One pass over all weights: the largest logit and the sum of every row, and its mean value."""
        equal = bool((masses == masses[:, :1]).all())
        row = q.new_empty(*q.shape[:-1], 1)
        mean = q.new_empty(*q.shape[:-1], values.shape[-2])
        found = cls(q, keys, values, masses.log(), equal, positions, mask, scale, row, torch.empty_like(row), mean)
        found._first_pass()
        return found

    def push(
        self,
        dq: Float[Tensor, "maps n width"],
        dk: Float[Tensor, "maps width n"],
        dv: Float[Tensor, "maps value_width n"],
    ) -> Float[Tensor, "maps n value_width"]:
        """How the means move with queries, keys and values."""
        moved, room = torch.empty_like(self.mean), self._room()
        for block in self._blocks():
            head, rows, columns = block.head, block.rows, block.columns
            weights, slope = self._weights(block, room[0]), _shaped(room[1], block)
            torch.mm(dq[head, rows] * self.scale, self.keys[head, :, columns], out=slope)
            slope.addmm_(self.q[head, rows] * self.scale, dk[head, :, columns]).mul_(weights)
            drift = slope.sum(-1, keepdim=True) * self.mean[head, rows]
            pull = slope @ self.values[head, :, columns].mT - drift  # both large where logits are: they meet first
            moved[head, rows] = (weights @ dv[head, :, columns].mT + pull) * self.inverse[head, rows]
        return moved

    def pull(self, cotangent: Float[Tensor, "maps n value_width"]) -> tuple[Tensor, Tensor, Tensor]:
        """The transpose of `push`: gradients of queries, and of keys and values by coordinates."""
        dq, dk, dv = torch.empty_like(self.q), torch.zeros_like(self.keys), torch.zeros_like(self.values)
        centre, room = (cotangent * self.mean).sum(-1, keepdim=True), self._room()
        for block in self._blocks():
            head, rows, columns = block.head, block.rows, block.columns
            weights, slope = self._weights(block, room[0]), _shaped(room[1], block)
            here, inverse = cotangent[head, rows], self.inverse[head, rows]
            torch.mm(here, self.values[head, :, columns], out=slope)
            slope.sub_(centre[head, rows]).mul_(weights)
            torch.mm(slope, self.keys[head, :, columns].mT, out=dq[head, rows])
            dq[head, rows] *= inverse * self.scale
            dk[head, :, columns].addmm_((self.q[head, rows] * (inverse * self.scale)).mT, slope)
            dv[head, :, columns].addmm_((here * inverse).mT, weights)
        return dq, dk, dv

    @property
    def log_total(self) -> Float[Tensor, "maps n"]:
        """log sum_j m_j exp(s_ij) of every row; minus infinity for one that sees nobody."""
        found = torch.where(self.inverse > 0, self.shift - self.inverse.log(), -math.inf)[..., 0]
        heads = self.q.shape[0] // self.positions.shape[0]
        return found + self.log_masses[:, :1].repeat_interleave(heads, dim=0) if self.equal else found

    def _first_pass(self) -> None:
        room = self._room()[0]
        for block in self._blocks():
            head, rows = block.head, block.rows
            logits = self._logits(block, room)
            largest = logits.amax(-1, keepdim=True)
            self.shift[head, rows] = torch.where(largest == -math.inf, 0.0, largest)
            weights = logits.sub_(self.shift[head, rows]).exp_()
            total = weights.sum(-1, keepdim=True)
            self.inverse[head, rows] = torch.where(total == 0, 0.0, 1 / total)
            self.mean[head, rows] = (weights @ self.values[head, :, block.columns].mT) * self.inverse[head, rows]

    def _weights(self, block: Block, room: Tensor) -> Float[Tensor, "rows columns"]:
        """E of a block, not yet divided by the sums of its rows."""
        return self._logits(block, room).sub_(self.shift[block.head, block.rows]).exp_()

    def _logits(self, block: Block, room: Tensor) -> Float[Tensor, "rows columns"]:
        columns, surely = block.columns, block.surely
        keys = self.keys[block.head, :, columns]
        logits = torch.mm(self.q[block.head, block.rows] * self.scale, keys, out=_shaped(room, block))
        if not self.equal:  # equal ones drop out of every row
            logits += self.log_masses[block.sample, columns]
        positions = self.positions[block.sample]
        for part in (slice(columns.start, surely.start), slice(surely.stop, columns.stop)):
            hidden = self.mask.hides(positions[block.rows, None], positions[None, part])
            if hidden is not None:
                here = slice(part.start - columns.start, part.stop - columns.start)
                logits[:, here].masked_fill_(hidden, -math.inf)
        return logits

    def _room(self) -> tuple[Tensor, Tensor]:
        """Two blocks, written again and again."""
        size = max(self._height() * self.q.shape[-2], 1)
        return self.q.new_empty(size), self.q.new_empty(size)

    def _height(self) -> int:
        return min(self.q.shape[-2], BLOCK_ROWS, max(1, BLOCK_ENTRIES // self.q.shape[-2]))

    def _blocks(self) -> Iterator[Block]:
        (maps, length), samples, height = self.q.shape[:2], self.positions.shape[0], self._height()
        heads, starts = maps // samples, range(0, length, height)
        for sample in range(samples):
            spans = [slice(start, min(start + height, length)) for start in starts]
            seen = [seen_columns(self.mask, self.positions[sample], rows) for rows in spans]
            for head in range(sample * heads, (sample + 1) * heads):
                for rows, (columns, surely) in zip(spans, seen, strict=True):
                    yield Block(head, sample, rows, columns, surely)


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


def _shaped(room: Tensor, block: Block) -> Float[Tensor, "rows columns"]:
    """The beginning of a piece of memory as one block of its size."""
    height, width = block.rows.stop - block.rows.start, block.columns.stop - block.columns.start
    return room[: height * width].view(height, width)

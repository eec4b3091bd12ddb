"""What a sliver of mass does to a layer's output: in closed form, at the cost of one row of attention.

A mass t is cut from token i and sent to y. With Z_r, o_r and v of the forward pass at the tokens, row r attends to y
with the share p = a / (1 - b + a) of its attention, a = t e^{s_ry} / Z_r, b = t e^{s_ri} / Z_r, and its output moves by

    p (v_y - o_r) - b (1 - p) / (1 - b) (v_i - o_r),

while the sliver itself, which had the output of token i, gets that of a token at y (docs/proofs/splitting.md#slivers).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from robust_attn.attention.jacobian import LayerJacobian, Projections, project
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import visible
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.places import standard_normal

BLOCK_ELEMENTS = 2**22
"""Numbers in flight for a block of slivers: rows times what is known of each."""
SKETCH = 24
"""Outputs are compared in so many random coordinates where slivers are only ranked."""


@dataclass(frozen=True, eq=False)
class SliverField:
    """The change of the output by each of many slivers, every one by itself, of one sample without padding.

    `output` is the layer's W_O, or a sketch of it; `means` are the outputs of the tokens head by head.
    """

    at: LayerJacobian
    output: Float[Tensor, "heads out w"]
    means: Float[Tensor, "n heads out"]
    seen: Bool[Tensor, "n n"]

    @classmethod
    def of(cls, layer: AttentionLayer, sample: TokenMeasure) -> SliverField:
        """From one forward pass at the tokens."""
        at = layer.linearize(sample)
        return cls(at, layer.output, _out(layer.output, at.mean), visible(layer.mask, sample.positions, sample.masses))

    def sketched(self, generator: torch.Generator) -> SliverField:
        """The same field with outputs seen in a few random coordinates: norms within some ten per cent, far cheaper."""
        width = self.output.shape[1]
        if width <= SKETCH:
            return self
        noise = standard_normal((SKETCH, width), generator, self.output) / math.sqrt(SKETCH)
        output = noise @ self.output
        return replace(self, output=output, means=_out(output, self.at.mean))

    def change(
        self, source: Int[Tensor, "c"], mass: Float[Tensor, "c"], place: Float[Tensor, "c d"]
    ) -> Float[Tensor, "c"]:
        """(sum_r m_r |change of row r|^2 + t |change of the sliver|^2)^{1/2}, rows with what mass they have left."""
        sample = self.at.measure
        new = project(self.at.layer, TokenMeasure(place, mass, sample.positions[source]))
        taken = torch.nn.functional.one_hot(source, sample.length).to(mass.dtype) * mass[:, None]
        left = sample.masses - taken
        rows = self._rows(new, source, mass).square().sum(-1)
        own = self._own_row(new, source, mass, left).square().sum(-1)
        return ((left * rows).sum(-1) + mass * own).sqrt()

    def slope(
        self, source: Int[Tensor, "c"], mass: Float[Tensor, "c"], place: Float[Tensor, "c d"]
    ) -> tuple[Float[Tensor, "c"], Float[Tensor, "c"], Float[Tensor, "c d"]]:
        """`change` with its derivatives by mass and by place, block by block."""
        pieces = []
        for part in self.blocks(source.shape[0]):
            leaves = (mass[part].detach().requires_grad_(True), place[part].detach().requires_grad_(True))
            value = self.change(source[part], *leaves)
            pieces.append((value.detach(), *torch.autograd.grad(value.sum(), leaves)))
        values, by_mass, by_place = (torch.cat(piece) for piece in zip(*pieces, strict=True))
        return values, by_mass, by_place

    def blocks(self, count: int) -> Iterator[slice]:
        """Slices of `count` slivers that are looked at together."""
        heads, out, _ = self.output.shape
        size = max(1, BLOCK_ELEMENTS // (self.at.measure.length * (out + 4 * heads)))
        for first in range(0, count, size):
            yield slice(first, first + size)

    def _rows(self, new: Projections, source: Int[Tensor, "c"], mass: Float[Tensor, "c"]) -> Float[Tensor, "c n out"]:
        """How the output of every row moves; not at all where the row does not see the source."""
        parts, scale = self.at.projections, self.at.layer.scale
        log_mass = mass.log()[:, None] - self.at.log_normalizer[:, None, :]
        queries = parts.q.transpose(-1, -2)
        arriving = scale * new.k @ queries + log_mass
        seen = self.seen[:, source].T
        leaving = torch.where(seen, (scale * parts.k[:, source] @ queries + log_mass).exp(), 0.0)
        share = torch.where(seen, torch.sigmoid(arriving - torch.log1p(-leaving)), 0.0)
        lost = leaving * (1 - share) / (1 - leaving)
        coming, going = _out(self.output, new.v), _out(self.output, parts.v[:, source])
        moved = share.permute(1, 2, 0) @ coming - lost.permute(1, 2, 0) @ going
        return moved + ((lost - share).permute(2, 1, 0) @ self.means).transpose(0, 1)

    def _own_row(
        self, new: Projections, source: Int[Tensor, "c"], mass: Float[Tensor, "c"], left: Float[Tensor, "c n"]
    ) -> Float[Tensor, "c out"]:
        """The output of the sliver at its place, minus the one it had as a piece of its token."""
        parts, scale = self.at.projections, self.at.layer.scale
        weight = torch.where(self.seen[source], left.clamp_min(torch.finfo(left.dtype).tiny).log(), -torch.inf)
        others = scale * new.q @ parts.k.transpose(-1, -2) + weight
        itself = scale * (new.q * new.k).sum(-1, keepdim=True) + mass.log()[:, None]
        attention = torch.cat((others, itself), dim=-1).softmax(-1)
        mean = attention[..., :-1] @ parts.v + attention[..., -1:] * new.v
        return (_out(self.output, mean) - self.means[source]).sum(-2)


def _out(output: Float[Tensor, "heads out w"], field: Float[Tensor, "heads c w"]) -> Float[Tensor, "c heads out"]:
    """W_O^h of every head's own field, not yet added up."""
    return (field @ output.transpose(-1, -2)).transpose(0, 1)

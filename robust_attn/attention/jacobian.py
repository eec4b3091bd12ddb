"""The derivative of an attention layer in closed form, in blocks of rows so that memory stays linear in the length.

With P, q, k, v of one forward pass and o_i = sum_j P_ij v_j (docs/proofs/operator.md#derivative, in head space):

    do_i = sum_j P_ij dv_j + sum_j P_ij ds_ij v_j - (sum_j P_ij ds_ij) o_i,   ds_ij = scale (<dq_i, k_j> + <q_i, dk_j>)

A sink has the slope zero and does not move, so it enters through o_i alone, which contains its share.
Attention weights are kept when they are few and otherwise recomputed. Their rows sum to one to rounding whatever the
size of the logits, because a row is divided by its own sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import log_weight, visible
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.operator import Jacobian

BLOCK_ELEMENTS = 2**23
"""Attention weights in flight at once: 64 MB in float64. Smaller blocks cost calls, larger ones cache misses."""
KEPT_ELEMENTS = 2**25
"""Attention weights that may be kept for reuse: 256 MB in float64."""


@dataclass(frozen=True, eq=False)
class Projections:
    """Queries, keys and values of every head (keys and values repeated over the heads of their group)."""

    q: Float[Tensor, "*batch heads n width"]
    k: Float[Tensor, "*batch heads n width"]
    v: Float[Tensor, "*batch heads n value_width"]


@dataclass(frozen=True, eq=False)
class LayerJacobian(Jacobian):
    """The layer's value at a measure, and its derivative with respect to the points (masses fixed)."""

    layer: AttentionLayer
    measure: TokenMeasure
    projections: Projections
    mean: Float[Tensor, "*batch heads n value_width"]
    value: Float[Tensor, "*batch n out"]
    kept: tuple[Float[Tensor, "*batch heads _ n"], ...] | None

    @classmethod
    def at(
        cls, layer: AttentionLayer, measure: TokenMeasure, *, keep_attention: bool = True, block: int | None = None
    ) -> LayerJacobian:
        """One forward pass at the measure. `block` rows at a time; by default as many as fit BLOCK_ELEMENTS."""
        parts = project(layer, measure)
        elements = parts.q[..., 0].numel() * measure.length
        keep = keep_attention and elements <= KEPT_ELEMENTS
        means, kept = [], []
        for rows in row_blocks(parts, block):
            full = _attention(layer, measure, parts, rows)
            attention = full[..., : measure.length]
            means.append(attention @ parts.v)
            if layer.sinks is not None:
                means[-1] += full[..., measure.length :] * layer.sinks.value[:, None, :]
            if keep:
                kept.append(attention)
        mean = torch.cat(means, dim=-2)
        value = merge_heads(layer, mean) + layer.offset
        return cls(layer, measure, parts, mean, value, tuple(kept) if keep else None)

    @property
    def domain(self) -> torch.Size:
        """Shape of the points."""
        return self.measure.points.shape

    @property
    def codomain(self) -> torch.Size:
        """Shape of the value."""
        return self.value.shape

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the points."""
        return self.measure.points.dtype

    @property
    def device(self) -> torch.device:
        """Where the points are."""
        return self.measure.points.device

    def attention_blocks(self) -> Iterator[tuple[slice, Float[Tensor, "*batch heads _ n"]]]:
        """Blocks of rows of the attention matrices P of all heads, kept or recomputed."""
        if self.kept is not None:
            start = 0
            for attention in self.kept:
                rows = slice(start, start + attention.shape[-2])
                start = rows.stop
                yield rows, attention
            return
        for rows in row_blocks(self.projections, None):
            yield rows, _attention(self.layer, self.measure, self.projections, rows)[..., : self.measure.length]

    def attention(self) -> Float[Tensor, "*batch heads n n"]:
        """The attention matrices P of all heads, whole: n^2 numbers per head."""
        return torch.cat([block for _, block in self.attention_blocks()], dim=-2)

    @cached_property
    def log_normalizer(self) -> Float[Tensor, "*batch heads n"]:
        """log sum_j m_j exp(s_ij) of every row, with the sink; minus infinity for one that sees nobody."""
        blocks = row_blocks(self.projections, None)
        pieces = (all_logits(self.layer, self.measure, self.projections, rows).logsumexp(-1) for rows in blocks)
        return torch.cat(list(pieces), dim=-1)

    def jvp(self, tangent: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n out"]:
        """How the output moves when the points move by `tangent`."""
        parts = self.projections
        moved = project_tangent(self.layer, self.measure, tangent)
        left = torch.cat((moved.q, parts.q), dim=-1) * self.layer.scale
        right = torch.cat((parts.k, moved.k), dim=-1).transpose(-1, -2)
        pieces = []
        for rows, attention in self.attention_blocks():
            weighted_slope = (left[..., rows, :] @ right).mul_(attention)
            drift = weighted_slope.sum(-1, keepdim=True) * self.mean[..., rows, :]
            pull = weighted_slope @ parts.v - drift  # both large where logits are: they must meet before the rest
            pieces.append(attention @ moved.v + pull)
        return merge_heads(self.layer, torch.cat(pieces, dim=-2))

    def vjp(self, cotangent: Float[Tensor, "*batch n out"]) -> Float[Tensor, "*batch n d"]:
        """The gradient with respect to the points of <cotangent, output>."""
        parts = self.projections
        pulled = split_heads(self.layer, cotangent)
        centre = (pulled * self.mean).sum(-1, keepdim=True)
        dq, dk, dv = [], torch.zeros_like(parts.k), torch.zeros_like(parts.v)
        values = parts.v.transpose(-1, -2)
        for rows, attention in self.attention_blocks():
            here = pulled[..., rows, :]
            slope = (here @ values).sub_(centre[..., rows, :]).mul_(attention)
            dq.append(slope @ parts.k)
            dk += slope.transpose(-1, -2) @ parts.q[..., rows, :]
            dv += attention.transpose(-1, -2) @ here
        scale = self.layer.scale
        return pull_projections(self.layer, self.measure, Projections(torch.cat(dq, dim=-2) * scale, dk * scale, dv))


def row_blocks(parts: Projections, block: int | None) -> Iterator[slice]:
    """Consecutive slices of the rows, `block` long or as long as BLOCK_ELEMENTS allows."""
    length = parts.q.shape[-2]
    per_row = max(1, parts.q[..., 0, 0].numel() * length)
    size = block or max(1, BLOCK_ELEMENTS // per_row)
    for start in range(0, length, size):
        yield slice(start, min(start + size, length))


def project(layer: AttentionLayer, measure: TokenMeasure) -> Projections:
    """Queries, keys (rotated where the layer is rotary) and values of the measure's points."""
    q, k, v = _linear(layer, measure.points)
    return _arrange(layer, measure, q + layer.query_bias[:, None, :], k + layer.key_bias[:, None, :], v)


def project_tangent(layer: AttentionLayer, measure: TokenMeasure, tangent: Float[Tensor, "*batch n d"]) -> Projections:
    """How queries, keys and values move with the points: the same projections without biases."""
    return _arrange(layer, measure, *_linear(layer, tangent))


def project_queries(
    layer: AttentionLayer, measure: TokenMeasure, tangent: Float[Tensor, "*batch n d"]
) -> Float[Tensor, "*batch heads n width"]:
    """How the queries alone move with the points."""
    dq = (tangent @ layer.query.flatten(0, 1).T).unflatten(-1, (layer.heads, -1)).transpose(-2, -3)
    return dq if layer.rotary is None else layer.rotary.rotate(dq, measure.positions)


def pull_queries(
    layer: AttentionLayer, measure: TokenMeasure, cotangent: Float[Tensor, "*batch heads n width"]
) -> Float[Tensor, "*batch n d"]:
    """The transpose of `project_queries`."""
    dq = cotangent if layer.rotary is None else layer.rotary.rotate_back(cotangent, measure.positions)
    return dq.transpose(-2, -3).flatten(-2) @ layer.query.flatten(0, 1)


def pull_keys(
    layer: AttentionLayer, positions: Int[Tensor, "*batch n"], cotangent: Float[Tensor, "*batch heads n width"]
) -> Float[Tensor, "*batch heads n d"]:
    """The transpose of each head's keys by itself, not summed over heads: where a token draws what looks that way."""
    dk = cotangent if layer.rotary is None else layer.rotary.rotate_back(cotangent, positions)
    return dk @ layer.key[layer.head_groups]


def pull_projections(
    layer: AttentionLayer, measure: TokenMeasure, cotangent: Projections
) -> Float[Tensor, "*batch n d"]:
    """The transpose of `project_tangent`: gradients of queries, keys and values, as one gradient of the points."""
    dq = cotangent.q
    dk, dv = _sum_groups(layer, cotangent.k), _sum_groups(layer, cotangent.v)
    if layer.rotary is not None:
        dq = layer.rotary.rotate_back(dq, measure.positions)
        dk = layer.rotary.rotate_back(dk, measure.positions)
    gradient = torch.cat([part.transpose(-2, -3).flatten(-2) for part in (dq, dk, dv)], dim=-1)
    return gradient @ layer.stacked_projections


def _linear(layer: AttentionLayer, points: Float[Tensor, "*batch n d"]) -> tuple[Tensor, Tensor, Tensor]:
    """Unbiased projections as (..., heads or groups, n, width), from one matrix product."""
    stacked = points @ layer.stacked_projections.T
    sizes = [weights.shape[0] * weights.shape[1] for weights in (layer.query, layer.key, layer.value)]
    counts = (layer.heads, layer.groups, layer.groups)
    q, k, v = (
        part.unflatten(-1, (count, -1)).transpose(-2, -3)
        for part, count in zip(stacked.split(sizes, dim=-1), counts, strict=True)
    )
    return q, k, v


def _arrange(layer: AttentionLayer, measure: TokenMeasure, q: Tensor, k: Tensor, v: Tensor) -> Projections:
    if layer.rotary is not None:
        q, k = layer.rotary.rotate(q, measure.positions), layer.rotary.rotate(k, measure.positions)
    repeats = layer.heads // layer.groups
    if repeats > 1:
        k, v = k.repeat_interleave(repeats, dim=-3), v.repeat_interleave(repeats, dim=-3)
    return Projections(q, k, v)


def _sum_groups(layer: AttentionLayer, field: Float[Tensor, "*batch heads n width"]) -> Tensor:
    return field.unflatten(-3, (layer.groups, layer.heads // layer.groups)).sum(-3)


def merge_heads(
    layer: AttentionLayer, field: Float[Tensor, "*batch heads n value_width"]
) -> Float[Tensor, "*batch n out"]:
    """sum_h W_O^h field_h, as one matrix product."""
    return field.transpose(-2, -3).flatten(-2) @ layer.stacked_output


def split_heads(
    layer: AttentionLayer, field: Float[Tensor, "*batch n out"]
) -> Float[Tensor, "*batch heads n value_width"]:
    """(W_O^h)^T field for every head: the transpose of `merge_heads`."""
    return (field @ layer.stacked_output.T).unflatten(-1, (layer.heads, -1)).transpose(-2, -3)


def weighted_logits(
    layer: AttentionLayer, measure: TokenMeasure, parts: Projections, rows: slice
) -> Float[Tensor, "*batch heads _ n"]:
    """s_ij + log m_j for a block of rows, minus infinity where atom j is hidden: the softmax of a row is P_i."""
    weight = log_weight(layer.mask, measure.positions, measure.masses, rows)
    logits = (parts.q[..., rows, :] * layer.scale) @ parts.k.transpose(-1, -2)
    if layer.position_bias is not None:
        logits = logits + layer.position_bias.between(measure.positions, rows)
    return logits + weight.unsqueeze(-3)


def all_logits(
    layer: AttentionLayer, measure: TokenMeasure, parts: Projections, rows: slice
) -> Float[Tensor, "*batch heads _ keys"]:
    """`weighted_logits` of everything that a row attends to: the atoms, and the sink after them where there is one."""
    logits = weighted_logits(layer, measure, parts, rows)
    if layer.sinks is None:
        return logits
    sink = layer.sinks.log_weight(measure)[..., None, None]
    return torch.cat((logits, sink.expand(*logits.shape[:-1], 1)), dim=-1)


def _attention(
    layer: AttentionLayer, measure: TokenMeasure, parts: Projections, rows: slice
) -> Float[Tensor, "*batch heads _ keys"]:
    """A block of rows of P, sink included. A row that sees nobody (padding before everything) is zero, not 0/0."""
    logits = all_logits(layer, measure, parts, rows)
    if layer.sinks is not None:
        return logits.softmax(-1)
    sees_nobody = ~visible(layer.mask, measure.positions, measure.masses, rows).any(-1)
    if not sees_nobody.any():
        return logits.softmax(-1)
    blind = sees_nobody[..., None, :, None]
    return logits.masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)

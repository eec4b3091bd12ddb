"""The derivative of an attention layer in closed form, in blocks of rows so that memory stays linear in the length.

With P, q, k, v of one forward pass and o_i = sum_j P_ij v_j (docs/proofs/operator.md#derivative, in head space):

    do_i = sum_j P_ij dv_j + sum_j P_ij ds_ij v_j - (sum_j P_ij ds_ij) o_i,   ds_ij = scale (<dq_i, k_j> + <q_i, dk_j>)

A sink has the slope zero and does not move, so it enters through o_i alone, which contains its share.
Attention weights are kept when they are few and otherwise recomputed (`streamed.py`). Their rows sum to one to rounding
whatever the size of the logits, because a row is divided by its own sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from robust_attn.attention.head_norm import HeadNorm
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import log_weight, visible
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.operator import Jacobian
from robust_attn.attention.streamed import Streamed, by_coordinates

BLOCK_ELEMENTS = 2**23
"""Attention weights in flight at once: 64 MB in float64. Smaller blocks cost calls, larger ones cache misses."""
KEPT_ELEMENTS = 2**25
"""Attention weights that may be kept for reuse: 256 MB in float64."""
STREAMED_ELEMENTS, STREAMED_LENGTH = 2**22, 512
"""More attention weights than this are faster computed again than read from memory, where they can be streamed; of
shorter samples there would be too many blocks."""


@dataclass(frozen=True, eq=False)
class Projections:
    """Queries, keys and values of every head (keys and values repeated over the heads of their group).

    `raw_q` and `raw_k` are what norms of queries and keys were given, by heads and by groups; None without such a norm.
    """

    q: Float[Tensor, "*batch heads n width"]
    k: Float[Tensor, "*batch heads n width"]
    v: Float[Tensor, "*batch heads n value_width"]
    raw_q: Float[Tensor, "*batch heads n width"] | None = None
    raw_k: Float[Tensor, "*batch groups n width"] | None = None


@dataclass(frozen=True, eq=False)
class LayerJacobian(Jacobian):
    """The layer's value at a measure, and its derivative with respect to the points (masses fixed)."""

    layer: AttentionLayer
    measure: TokenMeasure
    projections: Projections
    mean: Float[Tensor, "*batch heads n value_width"]
    value: Float[Tensor, "*batch n out"]
    kept: tuple[Float[Tensor, "*batch heads _ n"], ...] | None
    streamed: Streamed | None = None

    @classmethod
    def at(
        cls, layer: AttentionLayer, measure: TokenMeasure, *, keep_attention: bool = True, block: int | None = None
    ) -> LayerJacobian:
        """One forward pass at the measure. `block` rows at a time; by default as many as fit BLOCK_ELEMENTS."""
        parts = project(layer, measure)
        elements = parts.q[..., 0].numel() * measure.length
        long = elements > STREAMED_ELEMENTS and measure.length >= STREAMED_LENGTH
        if block is None and long and _streams(layer, parts.q):
            return cls._streaming(layer, measure, parts)
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

    @classmethod
    def _streaming(cls, layer: AttentionLayer, measure: TokenMeasure, parts: Projections) -> LayerJacobian:
        """The same without ever holding more than a few rows of attention; keys and values stored by coordinates."""
        k, v = (by_coordinates(part) for part in (parts.k, parts.v))
        parts = replace(parts, k=k.mT, v=v.mT)
        found = Streamed.of(
            *(part.flatten(0, -3) for part in (parts.q, k, v)),
            masses=measure.masses.reshape(-1, measure.length),
            positions=measure.positions.reshape(-1, measure.length),
            mask=layer.mask,
            scale=layer.scale,
        )
        mean = found.mean.reshape(*parts.q.shape[:-1], -1)
        return cls(layer, measure, parts, mean, merge_heads(layer, mean) + layer.offset, None, found)

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
        kept = self._kept_again if self.kept is None else self.kept
        if kept is not None:
            start = 0
            for attention in kept:
                rows = slice(start, start + attention.shape[-2])
                start = rows.stop
                yield rows, attention
            return
        yield from self._attention_anew()

    @cached_property
    def _kept_again(self) -> tuple[Float[Tensor, "*batch heads _ n"], ...] | None:
        """Of weights that are streamed, those that somebody looks at, where they may be kept."""
        if self.streamed is None or self.projections.q[..., 0].numel() * self.measure.length > KEPT_ELEMENTS:
            return None
        return tuple(attention for _, attention in self._attention_anew())

    def _attention_anew(self) -> Iterator[tuple[slice, Float[Tensor, "*batch heads _ n"]]]:
        for rows in row_blocks(self.projections, None):
            yield rows, _attention(self.layer, self.measure, self.projections, rows)[..., : self.measure.length]

    def attention(self) -> Float[Tensor, "*batch heads n n"]:
        """The attention matrices P of all heads, whole: n^2 numbers per head."""
        return torch.cat([block for _, block in self.attention_blocks()], dim=-2)

    @cached_property
    def log_normalizer(self) -> Float[Tensor, "*batch heads n"]:
        """log sum_j m_j exp(s_ij) of every row, with the sink; minus infinity for one that sees nobody."""
        if self.streamed is not None:
            return self.streamed.log_total.reshape(self.mean.shape[:-1])
        blocks = row_blocks(self.projections, None)
        pieces = (all_logits(self.layer, self.measure, self.projections, rows).logsumexp(-1) for rows in blocks)
        return torch.cat(list(pieces), dim=-1)

    def log_column(self, token: int) -> Float[Tensor, "heads n"]:
        """log P_ij of one atom j of one measure in all rows i; minus infinity in rows that do not see it, there alone.

        n numbers a head, where `attention` has n^2.
        """
        layer, measure, parts = self.layer, self.measure, self.projections
        logits = layer.scale * (parts.q @ parts.k[:, token, :, None])[..., 0]
        if layer.position_bias is not None:
            logits = logits + layer.position_bias.table[:, measure.positions, measure.positions[token]]
        hidden = layer.mask.hides(measure.positions[:, None], measure.positions[None, token : token + 1])
        unseen = ~measure.present[token] if hidden is None else hidden[:, 0] | ~measure.present[token]
        return (logits + measure.masses[token].log() - self.log_normalizer).masked_fill(unseen, -torch.inf)

    def jvp(self, tangent: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n out"]:
        """How the output moves when the points move by `tangent`."""
        parts = self.projections
        moved = project_tangent(self.layer, self.measure, tangent, parts)
        if self.streamed is not None:
            k, v = (by_coordinates(part).flatten(0, -3) for part in (moved.k, moved.v))
            pushed = self.streamed.push(moved.q.flatten(0, -3), k, v)
            return merge_heads(self.layer, pushed.reshape(self.mean.shape))
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
        if self.streamed is not None:
            q, k, v = self.streamed.pull(pulled.flatten(0, -3))
            shape = parts.q.shape[:-2]
            gradient = Projections(*(part.reshape(*shape, *part.shape[-2:]) for part in (q, k.mT, v.mT)))
            return pull_projections(self.layer, self.measure, gradient, parts)
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
        gradient = Projections(torch.cat(dq, dim=-2) * scale, dk * scale, dv)
        return pull_projections(self.layer, self.measure, gradient, parts)


def _streams(layer: AttentionLayer, q: Tensor) -> bool:
    """Whether `streamed.py` knows this layer, and nobody asks torch for derivatives of it."""
    traced = q.requires_grad or torch._C._functorch.is_functorch_wrapped_tensor(q)
    return layer.position_bias is None and layer.sinks is None and not traced


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
    q, raw_q = _placed(layer, layer.query_norm, q + layer.query_bias[:, None, :], measure.positions)
    k, raw_k = _placed(layer, layer.key_norm, k + layer.key_bias[:, None, :], measure.positions)
    return Projections(q, _repeated(layer, k), _repeated(layer, v), raw_q, raw_k)


def project_tangent(
    layer: AttentionLayer, measure: TokenMeasure, tangent: Float[Tensor, "*batch n d"], at: Projections
) -> Projections:
    """How queries, keys and values move with the points, from where they are `at`."""
    dq, dk, dv = _linear(layer, tangent)
    dq = _pushed(layer, layer.query_norm, dq, measure.positions, at.raw_q)
    dk = _pushed(layer, layer.key_norm, dk, measure.positions, at.raw_k)
    return Projections(dq, _repeated(layer, dk), _repeated(layer, dv))


def project_queries(
    layer: AttentionLayer, measure: TokenMeasure, tangent: Float[Tensor, "*batch n d"], at: Projections
) -> Float[Tensor, "*batch heads n width"]:
    """How the queries alone move with the points."""
    dq = (tangent @ layer.query.flatten(0, 1).T).unflatten(-1, (layer.heads, -1)).transpose(-2, -3)
    return _pushed(layer, layer.query_norm, dq, measure.positions, at.raw_q)


def pull_queries(
    layer: AttentionLayer, measure: TokenMeasure, cotangent: Float[Tensor, "*batch heads n width"], at: Projections
) -> Float[Tensor, "*batch n d"]:
    """The transpose of `project_queries`."""
    dq = _pulled(layer, layer.query_norm, cotangent, measure.positions, at.raw_q)
    return dq.transpose(-2, -3).flatten(-2) @ layer.query.flatten(0, 1)


def pull_keys(
    layer: AttentionLayer, positions: Int[Tensor, "*batch n"], cotangent: Float[Tensor, "*batch heads n width"]
) -> Float[Tensor, "*batch heads n d"]:
    """The transpose of each head's keys by itself, not summed over heads: where a token draws what looks that way.

    A norm of the keys is left out: up to its gain it keeps the direction of a key.
    """
    dk = cotangent if layer.rotary is None else layer.rotary.rotate_back(cotangent, positions)
    return dk @ layer.key[layer.head_groups]


def pull_projections(
    layer: AttentionLayer, measure: TokenMeasure, cotangent: Projections, at: Projections
) -> Float[Tensor, "*batch n d"]:
    """The transpose of `project_tangent`: gradients of queries, keys and values, as one gradient of the points."""
    dv = _sum_groups(layer, cotangent.v)
    dq = _pulled(layer, layer.query_norm, cotangent.q, measure.positions, at.raw_q)
    dk = _pulled(layer, layer.key_norm, _sum_groups(layer, cotangent.k), measure.positions, at.raw_k)
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


def _placed(
    layer: AttentionLayer, norm: HeadNorm | None, raw: Tensor, positions: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Projections of one side turned and normalised, and what the norm was given."""
    if norm is None or norm.after_rotation:
        turned = raw if layer.rotary is None else layer.rotary.rotate(raw, positions)
        return (turned, None) if norm is None else (norm(turned), turned)
    normed = norm(raw)
    return (normed if layer.rotary is None else layer.rotary.rotate(normed, positions)), raw


def _pushed(
    layer: AttentionLayer, norm: HeadNorm | None, tangent: Tensor, positions: Tensor, raw: Tensor | None
) -> Tensor:
    """The derivative of `_placed`, where the norm was given `raw`."""
    late = norm is not None and norm.after_rotation
    if norm is not None and raw is not None and not late:
        tangent = norm.push(raw, tangent)
    if layer.rotary is not None:
        tangent = layer.rotary.rotate(tangent, positions)
    return norm.push(raw, tangent) if norm is not None and raw is not None and late else tangent


def _pulled(
    layer: AttentionLayer, norm: HeadNorm | None, cotangent: Tensor, positions: Tensor, raw: Tensor | None
) -> Tensor:
    """The transpose of `_pushed`."""
    late = norm is not None and norm.after_rotation
    if norm is not None and raw is not None and late:
        cotangent = norm.pull(raw, cotangent)
    if layer.rotary is not None:
        cotangent = layer.rotary.rotate_back(cotangent, positions)
    return norm.pull(raw, cotangent) if norm is not None and raw is not None and not late else cotangent


def pull_each(
    layer: AttentionLayer,
    norm: HeadNorm | None,
    cotangent: Float[Tensor, "heads n width"],
    positions: Int[Tensor, "n"],
    raw: Float[Tensor, "blocks n width"] | None,
    *,
    weights: Float[Tensor, "heads width c"],
) -> Float[Tensor, "heads n c"]:
    """Gradients of queries or keys of every head by itself, pulled back through norm, rotation and `weights`.

    `weights` are those of a head's own block; a norm across heads takes those of the others along.
    """
    if norm is None or raw is None or not norm.across:
        if norm is not None and raw is not None:
            repeats = layer.heads // len(raw)
            raw, gain, shift = (field.repeat_interleave(repeats, dim=0) for field in (raw, norm.gain, norm.shift))
            norm = replace(norm, gain=gain, shift=shift)
        return _pulled(layer, norm, cotangent, positions, raw) @ weights
    repeats, found = layer.heads // len(raw), []
    for head in range(layer.heads):
        alone = torch.zeros_like(raw)
        alone[head // repeats] = cotangent[head]
        found.append((_pulled(layer, norm, alone, positions, raw) @ weights[::repeats]).sum(0))
    return torch.stack(found)


def _repeated(layer: AttentionLayer, field: Tensor) -> Tensor:
    """What groups have, for every head."""
    repeats = layer.heads // layer.groups
    return field.repeat_interleave(repeats, dim=-3) if repeats > 1 else field


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

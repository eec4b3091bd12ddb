"""How strongly each token moves each output: the norms |D_ij| of the blocks of the derivative, in closed form.

With biases, rotation and all heads (docs/proofs/operator.md#blocks, in head space):

    D_ij = sum_h W_O^h [ P_ij (W_V^h + (v_j - o_i) g_ij^T) + 1{i=j} scale Cov_i(v, k) W_Q^h ],   g_ij = scale W_K^T q_i
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.jacobian import LayerJacobian
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure

BLOCK_ELEMENTS = 2**22
"""Entries of the blocks D_ij in flight at once: 32 MB in float64."""


def pair_norms(layer: AttentionLayer, measure: TokenMeasure) -> Float[Tensor, "*batch n n"]:
    """|D_ij|, the spectral norm of d f(X)_i / d x_j: entry (i, j) is how far output i moves per unit motion of token j.

    Exact up to rounding (an SVD per pair); a few blocks are in memory at a time. Padding neither moves nor counts: its
    rows and columns are zero. The norm of this matrix of norms is an upper value of |D|
    (docs/proofs/operator.md#blocks).
    """
    samples = measure.points.shape[:-2].numel()
    flat = TokenMeasure(
        measure.points.reshape(samples, measure.length, measure.width),
        measure.masses.reshape(samples, -1),
        measure.positions.reshape(samples, -1),
    )
    reduced = _Reduced.of(layer)
    norms = [_sample_norms(layer.linearize(flat.sample(index)), reduced) for index in range(samples)]
    return torch.stack(norms).reshape(*measure.points.shape[:-1], measure.length)


@dataclass(frozen=True, eq=False)
class _Reduced:
    """The weights in orthonormal coordinates of the ranges they use (QR on both sides): same norms, smaller blocks."""

    output: Float[Tensor, "heads r value_width"]
    query: Float[Tensor, "heads width c"]
    key: Float[Tensor, "heads width c"]
    value: Float[Tensor, "heads value_width c"]

    @classmethod
    def of(cls, layer: AttentionLayer) -> _Reduced:
        groups = layer.head_groups
        left = layer.stacked_output.T
        if left.shape[0] > left.shape[1]:
            left = torch.linalg.qr(left, mode="r").R
        right = layer.stacked_projections
        if right.shape[1] > right.shape[0]:
            right = torch.linalg.qr(right.T, mode="r").R.T
        sizes = [weights.shape[0] * weights.shape[1] for weights in (layer.query, layer.key, layer.value)]
        query, key, value = right.split(sizes)
        return cls(
            left.unflatten(-1, (layer.heads, -1)).transpose(0, 1),
            query.unflatten(0, (layer.heads, -1)),
            key.unflatten(0, (layer.groups, -1))[groups],
            value.unflatten(0, (layer.groups, -1))[groups],
        )


def _sample_norms(jacobian: LayerJacobian, reduced: _Reduced) -> Float[Tensor, "n n"]:
    length = jacobian.measure.length
    norms = torch.zeros(length, length, dtype=jacobian.dtype, device=jacobian.device)
    for rows, attention in jacobian.attention_blocks():
        for offset in range(attention.shape[-2]):
            row = rows.start + offset
            blocks = _row_blocks(jacobian, reduced, row, attention[:, offset, :])
            norms[row] = torch.cat([torch.linalg.matrix_norm(block, 2) for block in blocks])
    present = jacobian.measure.present.to(norms.dtype)
    return norms * present * present[:, None]


def _row_blocks(
    jacobian: LayerJacobian, reduced: _Reduced, row: int, attention: Float[Tensor, "heads n"]
) -> Iterator[Float[Tensor, "columns r c"]]:
    """D_ij of one row i, in coordinates that keep norms, for as many j at once as BLOCK_ELEMENTS allows."""
    parts, layer, length = jacobian.projections, jacobian.layer, jacobian.measure.length
    base = reduced.output @ reduced.value
    turn = (attention[..., None] * (parts.v - jacobian.mean[:, row, None, :])) @ reduced.output.transpose(-1, -2)
    query = parts.q[:, row, None, :].expand(-1, length, -1)
    if layer.rotary is not None:
        query = layer.rotary.rotate_back(query, jacobian.measure.positions)
    slope = layer.scale * query @ reduced.key
    size = max(1, BLOCK_ELEMENTS // base[0].numel())
    for start in range(0, length, size):
        columns = slice(start, min(start + size, length))
        block = torch.einsum("hj,hrc->jrc", attention[:, columns], base)
        block += torch.einsum("hjr,hjc->jrc", turn[:, columns], slope[:, columns])
        if columns.start <= row < columns.stop:
            block[row - start] += _query_block(jacobian, reduced, row, attention)
        yield block


def _query_block(
    jacobian: LayerJacobian, reduced: _Reduced, row: int, attention: Float[Tensor, "heads n"]
) -> Float[Tensor, "r c"]:
    """What token i does through its own query: scale sum_h W_O^h Cov_i(v, k) W_Q^h."""
    parts, layer, here = jacobian.projections, jacobian.layer, slice(row, row + 1)
    centred = attention[..., None] * (parts.v - jacobian.mean[:, here, :])
    covariance = centred.transpose(-1, -2) @ parts.k
    if layer.rotary is not None:
        places = jacobian.measure.positions[row].expand(covariance.shape[-2])
        covariance = layer.rotary.rotate_back(covariance, places)
    return layer.scale * (reduced.output @ covariance @ reduced.query).sum(0)

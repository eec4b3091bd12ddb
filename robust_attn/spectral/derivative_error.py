"""How far rounding may take a layer's derivative from the exact one (docs/proofs/rounding.md#derivative).

Of two kinds. The attention weights that are used differ from the exact ones by a part g = e^{2e} - 1, e the error of a
logit: that makes one other linear map. And every product that is computed errs, by units times the sizes of what went
in: that makes another map at every step of an iteration, k steps of which add up like 2 sqrt(k) of one.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.jacobian import LayerJacobian
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.rounding import UNIT, Sizes, rounding_at
from robust_attn.spectral.matrix_norms import covariance_norm_upper


def derivative_error(jacobian: LayerJacobian, weights: Float[Tensor, "*batch n"], *, steps: int) -> Tensor:
    """An upper value, per sample, of what rounding may add to or take from the largest singular value found in `steps`.

    In the norm (sum_i w_i |.|^2)^{1/2}, with o_i the mean value of row i. Row i of a head's derivative is

        W_O ( sum_j P_ij (W_V d_j + (v_j - o_i) <g_i, d_j>) + Cov_i(v, k) scale W_Q d_i ),    |g_i| <= scale |W_K| |q_i|

    Weights off by a part g change the sum by 2 g (|W_V| + |g_i| sd(v)) (sum_j P_ij |d_j|^2)^{1/2}, and the covariance
    by 3 g sd(v) sd(k); beyond g = 1 nothing is known.
    """
    layer, measure = jacobian.layer, jacobian.measure
    sizes, part = Sizes.of(layer, measure), rounding_at(layer, measure).weight
    query, key, value, output = _head_norms(layer)
    query = query if layer.query_norm is None else sizes.query
    key = key if layer.key_norm is None else sizes.key
    unknown = ~(part <= 1) & (output * value > 0)
    part = torch.where(unknown, 0.0, part)
    units = UNIT * (
        measure.length
        + 2 * layer.width
        + 4 * max(layer.query.shape[1], layer.value.shape[1])
        + layer.stacked_output.shape[0]
        + 30
        + sum(2 * norm.coordinates + 20 for norm in (layer.query_norm, layer.key_norm) if norm is not None)
    )
    units = 2 * math.sqrt(steps) * units
    pull = units * sizes.output * (sizes.value + 2 * sizes.scale * sizes.queries * sizes.key * sizes.values)
    turn = units * sizes.output * 2 * sizes.scale * sizes.query * sizes.keys * sizes.values
    inverse = torch.where(weights > 0, 1 / weights.clamp_min(1e-300), 0.0)[..., None, :]
    values, keys = _deviations(jacobian)
    slope = sizes.scale * key[..., None] * jacobian.projections.q.norm(dim=-1)
    moved = 2 * part[..., None] * output[:, None] * (value[:, None] + slope * values) + pull[..., None]
    own = 3 * part[..., None] * sizes.scale * (output * query)[..., None] * values * keys + turn[..., None]
    columns = _column_sums(jacobian, weights[..., None, :] * moved**2)
    keys_off = (columns * inverse).amax(-1).sqrt().sum(-1)
    return torch.where(unknown.any(-1), torch.inf, keys_off + own.sum(-2).amax(-1))


def _deviations(jacobian: LayerJacobian) -> tuple[Tensor, Tensor]:
    """sd_i(v) and sd_i(k) at most, for every row: the mean of all points stands for that of the row.

    A sink draws what the atoms do not: a value of its own, and a key that is zero.
    """
    parts, sinks = jacobian.projections, jacobian.layer.sinks
    middles = [points.mean(-2, keepdim=True) for points in (parts.v, parts.k)]
    away = [(points - middle).square().sum(-1) for points, middle in zip((parts.v, parts.k), middles, strict=True)]
    if sinks is None:
        squared = _row_means(jacobian, torch.stack(away, dim=-1))
    else:
        means = _row_means(jacobian, torch.stack((*away, torch.ones_like(away[0])), dim=-1))
        squared, left = means[..., :2], (1 - means[..., 2:]).clamp_min(0.0) + UNIT * jacobian.measure.length
        ends = (sinks.value[:, None, :], torch.zeros_like(jacobian.layer.query[..., :1]).mT)
        far = [(end - middle).square().sum(-1) for end, middle in zip(ends, middles, strict=True)]
        squared = squared + left * torch.stack(far, dim=-1)
    values, keys = squared.clamp_min(0.0).sqrt().unbind(-1)
    return values, keys


def _row_means(jacobian: LayerJacobian, fields: Float[Tensor, "*batch heads n some"]) -> Tensor:
    """sum_j P_ij z_j of every row i of every head."""
    if jacobian.streamed is not None:
        return jacobian.streamed.row_means(fields.mT.flatten(0, -3)).reshape(fields.shape)
    return torch.cat([attention @ fields for _, attention in jacobian.attention_blocks()], dim=-2)


def _column_sums(jacobian: LayerJacobian, parts: Float[Tensor, "*batch heads n"]) -> Tensor:
    """sum_i c_i P_ij of every column j of every head."""
    if jacobian.streamed is not None:
        return jacobian.streamed.column_sums(parts.flatten(0, -2)).reshape(parts.shape)
    found = torch.zeros_like(parts)
    for rows, attention in jacobian.attention_blocks():
        found = found + (parts[..., None, rows] @ attention)[..., 0, :]
    return found


def _head_norms(layer: AttentionLayer) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Upper values of |W_Q|, |W_K|, |W_V| and |W_O| of every head, by Gram iteration."""
    groups = layer.head_groups
    wide = (layer.query, layer.key, layer.value, layer.output.transpose(-1, -2))
    query, key, value, output = (covariance_norm_upper(each @ each.transpose(-1, -2)).sqrt() for each in wide)
    return query, key[groups], value[groups], output

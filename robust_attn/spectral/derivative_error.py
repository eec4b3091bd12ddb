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
    columns, own = torch.zeros_like(inverse.expand(jacobian.mean.shape[:-1])), []
    for rows, attention in jacobian.attention_blocks():
        values = _deviation(attention, jacobian.projections.v, None if layer.sinks is None else layer.sinks.value)
        keys = _deviation(
            attention, jacobian.projections.k, None if layer.sinks is None else torch.zeros_like(layer.query[..., 0])
        )
        slope = sizes.scale * key[..., None] * jacobian.projections.q[..., rows, :].norm(dim=-1)
        moved = 2 * part[..., None] * output[:, None] * (value[:, None] + slope * values) + pull[..., None]
        own.append(3 * part[..., None] * sizes.scale * (output * query)[..., None] * values * keys + turn[..., None])
        columns = columns + ((weights[..., None, rows] * moved**2)[..., None, :] @ attention)[..., 0, :]
    keys_off = (columns * inverse).amax(-1).sqrt().sum(-1)
    return torch.where(unknown.any(-1), torch.inf, keys_off + torch.cat(own, dim=-1).sum(-2).amax(-1))


def _deviation(
    attention: Float[Tensor, "*batch heads rows n"],
    points: Float[Tensor, "*batch heads n k"],
    sink: Float[Tensor, "heads k"] | None,
) -> Tensor:
    """(sum_j P_ij |z_j - mean_i|^2)^{1/2} at most: the mean of all points stands for that of the row.

    A sink draws what the atoms do not.
    """
    middle = points.mean(-2, keepdim=True)
    squared = (attention @ (points - middle).square().sum(-1, keepdim=True))[..., 0]
    if sink is not None:
        left = (1 - attention.sum(-1)).clamp_min(0.0) + UNIT * attention.shape[-1]
        squared = squared + left * (sink[:, None, :] - middle).square().sum(-1)
    return squared.clamp_min(0.0).sqrt()


def _head_norms(layer: AttentionLayer) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Upper values of |W_Q|, |W_K|, |W_V| and |W_O| of every head, by Gram iteration."""
    groups = layer.head_groups
    wide = (layer.query, layer.key, layer.value, layer.output.transpose(-1, -2))
    query, key, value, output = (covariance_norm_upper(each @ each.transpose(-1, -2)).sqrt() for each in wide)
    return query, key[groups], value[groups], output

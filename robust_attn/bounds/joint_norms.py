"""Norms of all heads of a layer together, for free masses: docs/proofs/splitting.md#joint-reach."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.rounding import UNIT
from robust_attn.spectral.matrix_norms import norm_upper, product_error, product_norm_upper

ASCENT_STEPS = 50


@dataclass(frozen=True, eq=False)
class JointNorms:
    """Upper values, in float64, with V_h = W_O^h W_V^h.

    `reach` bounds |sum_h V_h z_h| over |z_h| <= 1, each head with a point of its own; `total_value` is |sum_h V_h|, one
    point for all; `query` is scale times the norm of all W_Q^h on top of one another, `key` holds |W_K^h|.
    """

    reach: float
    total_value: float
    query: float
    key: Float[Tensor, "heads"]


def joint_norms(layer: AttentionLayer, *, unit: float = UNIT) -> JointNorms:
    """The norms of one layer, with what rounding may have taken; four singular value decompositions of its width."""
    layer = layer.to(torch.float64)
    groups = layer.head_groups
    value = layer.value[groups]
    error = float(product_error(layer.output, value, unit=unit).sum())
    return JointNorms(
        reach=joint_reach(layer.output, value) + error,
        total_value=float(norm_upper(torch.einsum("hok,hkd->od", layer.output, value))) + error,
        query=float(norm_upper(layer.query.flatten(0, 1))) * layer.logit_scale,
        key=norm_upper(layer.key[groups]),
    )


def joint_reach(output: Float[Tensor, "heads out k"], value: Float[Tensor, "heads k d"]) -> float:
    """sup |sum_h V_h z_h| over |z_h| <= 1: at most |[V_1/sqrt(c_1) ... V_H/sqrt(c_H)]| (sum_h c_h)^{1/2} for any c > 0.

    The supremum is max_w sum_h |V_h^T w| over unit w. At its maximiser the weights c_h = |V_h^T w| are the best ones:
    they are taken from an ascent on w, beside equal weights; and sum_h |V_h| is the last resort. All this of the V_h
    as computed: what rounding has taken from them is added by `joint_norms`.
    """
    factors = output @ torch.linalg.qr(value.transpose(-1, -2), mode="r").R.transpose(-1, -2)
    equal = factors.new_ones(factors.shape[0])
    left, sizes, _ = torch.linalg.svd(_beside(factors, equal), full_matrices=False)
    w = left @ (sizes / sizes[0].clamp_min(1e-300)) ** 8  # the first alone may be orthogonal to all that a head reaches
    for _ in range(ASCENT_STEPS):
        pulled = torch.einsum("hok,o->hk", factors, w)
        image = torch.einsum("hok,hk->o", factors, torch.nn.functional.normalize(pulled, dim=-1))
        w = torch.nn.functional.normalize(image, dim=0)
    ascended = torch.einsum("hok,o->hk", factors, w).norm(dim=-1)
    ascended = ascended.clamp_min(max(1e-3 * float(ascended.max()), 1e-150))
    weighted = [float(norm_upper(_beside(factors, c)) * c.sum().sqrt()) for c in (equal, ascended)]
    return min(*weighted, float(product_norm_upper(output, value, unit=0.0).sum()))


def _beside(factors: Float[Tensor, "heads out k"], weights: Float[Tensor, "heads"]) -> Float[Tensor, "out columns"]:
    """[V_1/sqrt(c_1) ... V_H/sqrt(c_H)] up to an isometry."""
    return (factors / weights.sqrt()[:, None, None]).permute(1, 0, 2).flatten(1)

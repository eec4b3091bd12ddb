"""First derivatives on a ball: upper values of |D_X f| (docs/proofs/local.md#closed-form and #block-norms)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.bounds.interval import Ball, Inflated
from robust_attn.spectral.matrix_norms import norm_upper
from robust_attn.spectral.norms import HeadNorms


@dataclass(frozen=True, eq=False)
class Slopes:
    """A block's share of the derivative: what bounds its key part in three ways, and its query part.

    Key part, squared, per |d_j|^2: `columns` with the heads added up; `value_columns` and `pull_columns` with the heads
    together, for moving values and for moving weights. `blocks` bounds the norms |D_ij| of the key part's blocks.
    """

    columns: Float[Tensor, "*batch rows n"]
    value_columns: Float[Tensor, "*batch rows n"]
    pull_columns: Float[Tensor, "*batch rows n"]
    blocks: Float[Tensor, "*batch rows n"]
    queries: Float[Tensor, "*batch rows"]


def slopes_on(norms: HeadNorms, even_slopes: bool, at: Inflated, keys: Tensor) -> Slopes:
    """Rows of the derivative: |V (I + |g|^2 C) V^T|^{1/2} a head, joined by Cauchy-Schwarz; heads together; blocks.

    Heads together: |sum_h V_h E d_j|^2 costs per |d_j|^2 at most |[V_1 ... V_H]|^2 sum_h P, and |sum_h Cov(u, c)| at
    most (sum_h |Cov(u)|)^{1/2} times the root of the joint form of the keys.
    """
    pull = at.steepest * at.value_deviation
    row_norm = (norms.value[:, None] ** 2 + pull**2).sqrt() if even_slopes else norms.value[:, None] + pull
    joint = row_norm.sum(-2, keepdim=True) * row_norm
    return Slopes(
        columns=(joint[..., None] * at.ceiling).sum(-3),
        value_columns=norms.beside_value**2 * at.ceiling.sum(-3),
        pull_columns=(at.value_deviation**2).sum(-2)[..., None] * keys,
        blocks=(at.ceiling * (norms.value[:, None, None] + at.value_distance * at.key_slope)).sum(-3),
        queries=(at.value_deviation * at.slope_deviation).sum(-2),
    )


def column_slope(ball: Ball, slopes: Slopes) -> Float[Tensor, "*batch"]:
    """Key part by its weighted column sums, heads added up or together; query part by its largest block."""

    def root(columns: Tensor) -> Tensor:
        return ((ball.weights[..., None] * columns).sum(-2) * ball.inverse).amax(-1).sqrt()

    together = root(slopes.value_columns) + root(slopes.pull_columns)
    return torch.minimum(root(slopes.columns), together) + slopes.queries.amax(-1)


def block_slope(ball: Ball, slopes: Slopes) -> Float[Tensor, "*batch"]:
    """|D| <= | [ |D_ij| ]_ij |, the norm of the matrix of the blocks' norms."""
    blocks = slopes.blocks + torch.diag_embed(slopes.queries)
    weighted = ball.weights.sqrt()[..., None] * blocks * ball.inverse.sqrt()[..., None, :]
    infinite = torch.isinf(weighted).flatten(-2).any(-1) & ~torch.isnan(weighted).flatten(-2).any(-1)
    return torch.where(infinite, torch.inf, norm_upper(weighted))

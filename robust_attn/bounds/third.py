"""Third derivatives on a ball, for displacements of the ball (docs/proofs/local.md#third-derivative).

Along d, s' are the slopes of a row's logits and 2 b their own slopes; ~ marks what is centred under P at a point of the
ball. The third derivative of the row is

    E[u~ s~'^3] - 3 E[u~ s~'] E[s~'^2] + 3 E[u~' s~'^2] + 6 E[u~ s~' b~] + 6 Cov(u', b)

No slope is farther than sigma_ij from its mean, and no row's slopes spread by more than nu_i: what is left of every
term is a quadratic map of d.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.bounds.curvature import Crossing, cross_terms, key_form, moving_values, third_mixed, third_own
from robust_attn.bounds.interval import MARGIN, Ball, Inflated, inflated, mean_square_root, smallest_rows
from robust_attn.bounds.rows import RowBlock
from robust_attn.bounds.together import QuadraticRows
from robust_attn.spectral.norms import HeadNorms


@dataclass(frozen=True, eq=False)
class Shares:
    """How far the slopes of the logits are from their mean, and what that makes of the values.

    `far` is sigma_ij |u_j - m_i|, `spread` its root mean square, `steepest` the largest sigma_ij of a row, and `pull`
    is 3 nu_i sd(u), which is all that is left of 3 E[u~ s~'].
    """

    far: Float[Tensor, "*batch heads rows keys"]
    spread: Float[Tensor, "*batch heads rows"]
    steepest: Float[Tensor, "*batch heads rows"]
    pull: Float[Tensor, "*batch heads rows"]


def shares(data: RowBlock, at: Inflated) -> Shares:
    """From slopes about their mean at the tokens: their mean at another point of the ball is not far from that."""
    mean = torch.minimum((at.ceiling * at.logit_slope).sum(-1) * MARGIN, at.logit_slope.amax(-1))
    mean = torch.minimum(mean, at.logit_deviation * (at.logit_deviation + data.logit_error[..., None]))
    sigma = torch.where(data.seen, at.logit_slope + mean[..., None], 0.0)
    far, steepest = sigma * at.value_distance, sigma.amax(-1)
    spread = torch.minimum(mean_square_root(at.ceiling, far), steepest * at.value_deviation)
    return Shares(far, spread, steepest, 3 * at.logit_deviation * at.value_deviation)


def third_rows(norms: HeadNorms, ball: Ball, data: RowBlock) -> QuadraticRows:
    """One block of rows of the third derivative: quadratic maps of d, times what the ball allows beside."""
    at = inflated(norms, ball, data)
    share = shares(data, at)
    strength = 1.5 * share.steepest
    keys = key_form(norms, ball, data, at, at.variance)
    moments = key_form(norms, ball, data, at, key_weights(at, share, ball.inverse[..., None, None, :]))
    moving = key_form(norms, ball, data, at, strength[..., None] ** 2 * at.variance)
    own = (third_own(at, share.far) + share.pull * at.slope_deviation**2).sum(-2)
    mixed = third_mixed(at, share.far) + share.pull * at.slope_deviation
    crossing = Crossing(2 * strength * at.slope_deviation, 6 * share.steepest * at.value_deviation, 2 * mixed)
    rows, matrix = cross_terms(norms, ball, at, keys, crossing, (2 * own.sqrt(), moments))
    pairs = moments + moving_values(norms, at, moving, strength) + _moving_slopes(norms, ball, data.rows, at)
    return QuadraticRows(pairs=pairs * MARGIN, own=own * MARGIN, cross_rows=rows * MARGIN, cross_matrix=matrix * MARGIN)


def key_weights(at: Inflated, share: Shares, inverse: Tensor) -> Float[Tensor, "*batch heads rows keys"]:
    """z with E[(far + pull) (c - c_bar)^2] <= sum_j z_j c_j^2 for any c, far and pull as in `Shares`.

    E[far (c - c_bar)^2] <= E[far c^2] + 2 |c_bar| E[far |c|] + c_bar^2 E far, and c_bar^2 <= E c^2; or the largest of
    far times the variance of c.
    """
    split = at.ceiling * (share.far + 3 * share.spread[..., None])
    whole = at.variance * share.far.amax(-1, keepdim=True)
    return smallest_rows((split, whole), inverse) + share.pull[..., None] * at.variance


def _moving_slopes(norms: HeadNorms, ball: Ball, rows: slice, at: Inflated) -> Float[Tensor, "*batch rows keys"]:
    """6 Cov(u', b) per |d_j|^2, with |d_i| at most the reach of i."""
    apart = ((norms.value * norms.interaction)[:, None, None] * at.variance).sum(-3)
    together = norms.stacked_value * norms.stacked_interaction * at.variance.amax(-3)
    return 6 * ball.reach[..., rows, None] * torch.minimum(apart, together)

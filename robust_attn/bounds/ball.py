"""Certificates on a ball around the tokens given (theory sheet, 3.3 and 3.4): closed form, second order, hull.

Everything is measured in (sum_i w_i |.|^2)^{1/2}. A displacement of that norm at most eps moves atom j by at most
r_j <= eps / sqrt(w_j).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.bounds.interval import MARGIN, Ball, Inflated, ball_of, inflated
from robust_attn.bounds.rows import RowBlock, row_blocks
from robust_attn.budget import Budget
from robust_attn.spectral.norms import HeadNorms, covariance_norm_upper


@dataclass(frozen=True, eq=False)
class BallNorms:
    """Upper values over a whole ball around the tokens, one number per sample: change of the output, in the norm.

    `centre` is a Lipschitz constant at the tokens themselves, `closed_form` one on the ball, `curvature` an upper value
    of |f''[d, d]| / |d|^2 there; `hull_rows` bounds the output change of each row for every perturbation in the budget.
    """

    centre: Float[Tensor, "*batch"]
    closed_form: Float[Tensor, "*batch"]
    curvature: Float[Tensor, "*batch"]
    hull_rows: Float[Tensor, "*batch n"]


@dataclass(frozen=True, eq=False)
class _Terms:
    """A block's share: key and query part of the derivative at the tokens and on the ball, curvature, the hull."""

    centre_keys: Float[Tensor, "*batch rows n"]
    centre_queries: Float[Tensor, "*batch rows"]
    key_columns: Float[Tensor, "*batch rows n"]
    query_rows: Float[Tensor, "*batch rows"]
    pair_matrix: Float[Tensor, "*batch rows n"]
    own_rows: Float[Tensor, "*batch rows"]
    cross_rows: Float[Tensor, "*batch rows"]
    cross_matrix: Float[Tensor, "*batch rows n"]
    hull_rows: Float[Tensor, "*batch rows"]


def ball_norms(
    layer: AttentionLayer, norms: HeadNorms, measure: TokenMeasure, budgets: Sequence[Budget]
) -> tuple[BallNorms, ...]:
    """All bounds on the ball of each budget around a batched measure, in float64; the rows are looked at once."""
    balls = [ball_of(measure, budget) for budget in budgets]
    blocks: list[list[_Terms]] = [[] for _ in balls]
    for rows in row_blocks(layer, measure):
        for ball, found in zip(balls, blocks, strict=True):
            found.append(_terms(norms, ball, layer.rotary is not None, rows))
    return tuple(_assemble(ball, _concatenated(found)) for ball, found in zip(balls, blocks, strict=True))


def _concatenated(blocks: list[_Terms]) -> _Terms:
    """Blocks of rows as one: axis 1 runs over the rows (axis 0 over the samples)."""
    return _Terms(*(torch.cat([getattr(block, field.name) for block in blocks], dim=1) for field in fields(_Terms)))


def _assemble(ball: Ball, terms: _Terms) -> BallNorms:
    """Rows put together in the weighted norm (theory sheet 3.3: column norms for squares of displacements)."""
    centre = _derivative(ball, terms.centre_keys, terms.centre_queries)
    closed_form = _derivative(ball, terms.key_columns, terms.query_rows)
    pairs = ball.weights.sqrt()[..., None] * terms.pair_matrix * ball.inverse[..., None, :]
    pairs = pairs + torch.diag_embed(terms.own_rows * ball.inverse.sqrt())
    mixed = terms.cross_matrix * ball.inverse[..., None, :] + torch.diag_embed(terms.cross_rows / 2)
    curvature = torch.minimum(_largest_column(pairs) + terms.cross_rows.amax(-1), _largest_column(pairs + mixed))
    return BallNorms(centre * MARGIN, closed_form * MARGIN, curvature * MARGIN, terms.hull_rows * MARGIN)


def _derivative(ball: Ball, key_columns: Tensor, query_rows: Tensor) -> Float[Tensor, "*batch"]:
    """Key part by its weighted column sums, query part by its largest block."""
    key = ((ball.weights[..., None] * key_columns).sum(-2) * ball.inverse).amax(-1).sqrt()
    return key + query_rows.amax(-1)


def _largest_column(matrix: Float[Tensor, "*batch n m"]) -> Float[Tensor, "*batch"]:
    """max_j |M_{:j}|: for M >= 0 and a >= 0 with sum a_j <= eps^2, |M a| <= eps^2 times this."""
    return matrix.norm(dim=-2).amax(-1)


def _terms(norms: HeadNorms, ball: Ball, rotary: bool, data: RowBlock) -> _Terms:
    """One block of rows: bounds of the derivative, of the second derivative and of the hull."""
    at = inflated(norms, ball, data)
    centre_keys, centre_queries = _derivative_terms(norms, rotary, inflated(norms, ball.centre, data))
    key_columns, query_rows = _derivative_terms(norms, rotary, at)
    keys = _key_form(norms, ball, data, at, at.ceiling)
    third_keys = _key_form(norms, ball, data, at, at.ceiling * _third_keys(at))
    cross_rows, cross_matrix = _cross(norms, ball, at, keys)
    return _Terms(
        centre_keys=centre_keys,
        centre_queries=centre_queries,
        key_columns=key_columns,
        query_rows=query_rows,
        pair_matrix=_moving_values(norms, at, keys) + third_keys,
        own_rows=_third_own(at).sum(-2),
        cross_rows=cross_rows,
        cross_matrix=cross_matrix,
        hull_rows=_hull_rows(norms, ball, data),
    )


def _derivative_terms(norms: HeadNorms, rotary: bool, at: Inflated) -> tuple[Tensor, Tensor]:
    """Rows of the key part, |V (I + |g|^2 C) V^T|^{1/2} a head, joined by Cauchy-Schwarz; and the query blocks."""
    pull = at.steepest * at.value_deviation
    row_norm = norms.value[:, None] + pull if rotary else (norms.value[:, None] ** 2 + pull**2).sqrt()
    joint = row_norm.sum(-2, keepdim=True) * row_norm
    return (joint[..., None] * at.ceiling).sum(-3), (at.value_deviation * at.slope_deviation).sum(-2)


def _cross(norms: HeadNorms, ball: Ball, at: Inflated, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Terms c |d_i| (E|d_j|^2)^{1/2}: per row as they are, and as a matrix on |d_j|^2 by 2xy <= tx^2 + y^2/t.

    Per head 2 (|V| sd(y) + |A| sd(u)), and the third moment with one query and one key factor: head by head, or with
    the heads' key factors together, whichever is smaller in a row.
    """
    first = 2 * (norms.value[:, None] * at.slope_deviation + norms.interaction[:, None] * at.value_deviation)
    third = 2 * _third_mixed(at)
    balance = at.strongest.sqrt()
    joint_balance = (keys * ball.inverse[..., None, :]).amax(-1).sqrt()
    joint_third = (third**2).sum(-2).sqrt()
    together = joint_third * joint_balance < (third * at.steepest * balance).sum(-2)
    apart = first + torch.where(together.unsqueeze(-2), torch.zeros_like(third), third * at.steepest)
    joint_third = torch.where(together, joint_third, torch.zeros_like(joint_third))
    rows = (apart * balance).sum(-2) + joint_third * joint_balance
    matrix = ((apart / (2 * _positive(balance)))[..., None] * at.ceiling).sum(-3)
    return rows, matrix + (joint_third / (2 * _positive(joint_balance)))[..., None] * keys


def _key_form(
    norms: HeadNorms, ball: Ball, data: RowBlock, at: Inflated, weights: Float[Tensor, "*batch heads rows n"]
) -> Float[Tensor, "*batch rows n"]:
    """Upper values over the ball of the largest eigenvalue of sum_h w^h_ij g g^T, g = ds^h_ij/dx_j.

    One displacement of token j cannot be aligned with the slopes of all heads at once: that is what is won over adding
    heads up. With G the Gram matrix of the slopes the eigenvalue is that of sqrt(w) G sqrt(w); on the ball each slope
    moves by at most |A_h| times the reach of i, which adds to the square root.
    """
    apart = (weights * at.key_slope**2).sum(-3)
    if data.key_gram is None:
        return apart
    root = weights.sqrt().movedim(-3, -1)
    joint = covariance_norm_upper(root[..., :, None] * data.key_gram[..., None, :, :] * root[..., None, :]).sqrt()
    drift = (weights * norms.interaction[:, None, None] ** 2).sum(-3).sqrt() * ball.reach[..., data.rows, None]
    return torch.minimum(apart, (joint + drift) ** 2)


def _moving_values(norms: HeadNorms, at: Inflated, keys: Tensor) -> Float[Tensor, "*batch rows n"]:
    """Coefficients c_ij with |2 sum_h Cov(u', s' of the keys)| <= sum_j c_ij |d_j|^2, the better of two ways per row.

    Head by head 2 |V_h| g_ij; or heads together, by Cauchy-Schwarz over heads and atoms and 2xy <= t x^2 + y^2 / t:
    x^2 = sum_h E<V_h^T w, d_j>^2 costs per |d_j|^2 the smaller of sum_h P |V_h|^2 and max_h P |[V_1 ...]|^2.
    """
    u = at.ceiling
    apart = (2 * u * norms.value[:, None, None] * at.steepest[..., None]).sum(-3)
    values = torch.minimum((u * norms.value[:, None, None] ** 2).sum(-3), u.amax(-3) * norms.stacked_value**2)
    balance = (keys.amax(-1) / values.amax(-1).clamp_min(1e-300)).sqrt()[..., None].clamp(1e-150, 1e150)
    together = balance * values + keys / balance
    better = together.sum(-1, keepdim=True) < apart.sum(-1, keepdim=True)
    return torch.where(better, together, apart)


def _third_keys(at: Inflated) -> Float[Tensor, "*batch heads rows n"]:
    """Coefficients z_ij with |E[(u - m)(c - c_bar)^2]| <= E[z c^2] for c_j = <g_ij, d_j>; the better of two per row.

    E[(u - m) c^2] - 2 c_bar E[(u - m) c] costs |u_j - m| + 2 sd(u); or the farthest value times the variance of c.
    """
    split = at.value_distance + 2 * at.value_deviation[..., None]
    whole = at.value_distance.amax(-1, keepdim=True).expand(split.shape)
    better = (at.ceiling * split).sum(-1, keepdim=True) < (at.ceiling * whole).sum(-1, keepdim=True)
    return torch.where(better, split, whole)


def _third_own(at: Inflated) -> Float[Tensor, "*batch heads rows"]:
    """|E[(u - m) a^2]| / |d_i|^2 for a_j = <y_ij - mean, d_i>: the smallest of three ways to hold it."""
    u, d, b = at.ceiling, at.value_distance, at.slope_distance
    return _smallest(
        (u * d * b**2).sum(-1),
        d.amax(-1) * at.slope_deviation**2,
        b.amax(-1) * at.value_deviation * at.slope_deviation,
    )


def _third_mixed(at: Inflated) -> Float[Tensor, "*batch heads rows"]:
    """(E[<w, u - m>^2 a^2])^{1/2} / |d_i| for unit w: the smallest of three ways to hold it."""
    u, d, b = at.ceiling, at.value_distance, at.slope_distance
    return _smallest((u * d**2 * b**2).sum(-1).sqrt(), d.amax(-1) * at.slope_deviation, b.amax(-1) * at.value_deviation)


def _positive(values: Tensor) -> Tensor:
    """The values with zeros replaced by one: divisors whose numerators are then zero too."""
    return torch.where(values > 0, values, torch.ones_like(values))


def _smallest(*candidates: Tensor) -> Tensor:
    return torch.stack(candidates).amin(0)


def _hull_rows(norms: HeadNorms, ball: Ball, data: RowBlock) -> Float[Tensor, "*batch rows"]:
    """sum_h (farthest visible value from the row's own mean + |W_O W_V| times the largest reach of a visible atom)."""
    distance = torch.where(data.seen, data.value_distance, torch.zeros_like(data.value_distance)).amax(-1)
    reach = torch.where(data.seen, ball.reach[..., None, None, :], 0.0).amax(-1)
    return (distance + norms.value[:, None] * reach).sum(-2)

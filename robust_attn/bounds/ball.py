"""Certificates on a ball around the tokens given (theory sheet, 3.3 and 3.4): interval softmax, second order, hull.

Everything is measured in (sum_i w_i |.|^2)^{1/2}. A displacement of that norm at most eps moves atom j by at most
r_j <= eps / sqrt(w_j). `u` are values after the output projection, `y_ij` the slope of logit (i, j) in x_i; both enter
through differences alone, so QR factors of the projections replace them and no d x d matrix appears.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from robust_attn.attention.jacobian import LayerJacobian
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import visible
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget
from robust_attn.spectral.norms import HeadNorms, covariance_norm_upper

PAIR_ELEMENTS = 2**22
"""Numbers in one (rows, atoms, head width) block: 32 MB in float64."""
MARGIN = 1 + 1e-11
"""Relative margin for the rounding of sums over at most some thousand tokens in float64."""


@dataclass(frozen=True, eq=False)
class BallNorms:
    """Upper values over a whole ball around the tokens, one number per sample: change of the output, in the norm.

    `closed_form` is a Lipschitz constant on the ball, `curvature` an upper value of |f''[d, d]| / |d|^2 there, and
    `hull` an output change that no perturbation in the budget exceeds.
    """

    closed_form: Float[Tensor, "*batch"]
    curvature: Float[Tensor, "*batch"]
    hull_rows: Float[Tensor, "*batch n"]


@dataclass(frozen=True, eq=False)
class _Ball:
    """The ball: radius eps in the weighted norm, weights and their inverses (zero for padding), reach of each atom."""

    eps: float
    weights: Float[Tensor, "*batch n"]
    inverse: Float[Tensor, "*batch n"]
    reach: Float[Tensor, "*batch n"]


@dataclass(frozen=True, eq=False)
class _Rows:
    """What is known at the tokens given about a block of rows: log P, visibility, and pairwise differences."""

    rows: slice
    log_p: Float[Tensor, "*batch heads rows n"]
    seen: Bool[Tensor, "*batch 1 rows n"]
    value_distance: Float[Tensor, "*batch heads rows n"]
    value_deviation: Float[Tensor, "*batch heads rows"]
    slope_distance: Float[Tensor, "*batch heads rows n"]
    slope_deviation: Float[Tensor, "*batch heads rows"]
    key_slope: Float[Tensor, "*batch heads rows n"]


@dataclass(frozen=True, eq=False)
class _Inflated:
    """The same quantities as upper values over the ball, with U >= P and the largest U_ij / w_j of each row."""

    ceiling: Float[Tensor, "*batch heads rows n"]
    strongest: Float[Tensor, "*batch heads rows"]
    value_distance: Float[Tensor, "*batch heads rows n"]
    value_deviation: Float[Tensor, "*batch heads rows"]
    slope_distance: Float[Tensor, "*batch heads rows n"]
    slope_deviation: Float[Tensor, "*batch heads rows"]
    key_slope: Float[Tensor, "*batch heads rows n"]
    steepest: Float[Tensor, "*batch heads rows"]


@dataclass(frozen=True, eq=False)
class _Terms:
    """A block's share of the bounds: key and query part of the derivative, the three kinds of curvature, the hull."""

    key_columns: Float[Tensor, "*batch rows n"]
    query_rows: Float[Tensor, "*batch rows"]
    pair_matrix: Float[Tensor, "*batch rows n"]
    own_rows: Float[Tensor, "*batch rows"]
    cross_rows: Float[Tensor, "*batch rows"]
    cross_matrix: Float[Tensor, "*batch rows n"]
    cross_own: Float[Tensor, "*batch rows"]
    hull_rows: Float[Tensor, "*batch rows"]


def ball_norms(
    layer: AttentionLayer, norms: HeadNorms, measure: TokenMeasure, budgets: Sequence[Budget]
) -> tuple[BallNorms, ...]:
    """All bounds on the ball of each budget around a batched measure, in float64; the rows are looked at once."""
    balls = [_ball(measure, budget) for budget in budgets]
    blocks: list[list[_Terms]] = [[] for _ in balls]
    for rows in _row_data(layer, measure):
        for ball, found in zip(balls, blocks, strict=True):
            found.append(_terms(norms, ball, layer.rotary is not None, rows))
    return tuple(_assemble(ball, _concatenated(found)) for ball, found in zip(balls, blocks, strict=True))


def _concatenated(blocks: list[_Terms]) -> _Terms:
    """Blocks of rows as one: axis 1 runs over the rows (axis 0 over the samples)."""
    return _Terms(*(torch.cat([getattr(block, field.name) for block in blocks], dim=1) for field in fields(_Terms)))


def _assemble(ball: _Ball, terms: _Terms) -> BallNorms:
    """Rows put together in the weighted norm (theory sheet 3.3: column norms for squares of displacements)."""
    key = ((ball.weights[..., None] * terms.key_columns).sum(-2) * ball.inverse).amax(-1).sqrt()
    closed_form = key + terms.query_rows.amax(-1)
    pairs = ball.weights.sqrt()[..., None] * terms.pair_matrix * ball.inverse[..., None, :]
    pairs = pairs + torch.diag_embed(terms.own_rows * ball.inverse.sqrt())
    apart = _largest_column(pairs) + terms.cross_rows.amax(-1)
    mixed = terms.cross_matrix * ball.inverse[..., None, :] + torch.diag_embed(terms.cross_own)
    curvature = torch.minimum(apart, _largest_column(pairs + mixed))
    return BallNorms(closed_form * MARGIN, curvature * MARGIN, terms.hull_rows * MARGIN)


def _largest_column(matrix: Float[Tensor, "*batch n m"]) -> Float[Tensor, "*batch"]:
    """max_j |M_{:j}|: for M >= 0 and a >= 0 with sum a_j <= eps^2, |M a| <= eps^2 times this."""
    return matrix.norm(dim=-2).amax(-1)


def _ball(measure: TokenMeasure, budget: Budget) -> _Ball:
    weights = budget.weights(measure).double()
    inverse = torch.where(weights > 0, 1 / weights.clamp_min(1e-300), torch.zeros_like(weights))
    return _Ball(budget.hilbert_radius(measure), weights, inverse, budget.reach(measure).double())


def _row_data(layer: AttentionLayer, measure: TokenMeasure) -> Iterator[_Rows]:
    """Blocks of rows, small enough that (rows, atoms, head width) differences fit into PAIR_ELEMENTS numbers."""
    jacobian = LayerJacobian.at(layer, measure)
    parts = jacobian.projections
    groups = [layer.group_of(head) for head in range(layer.heads)]
    output_factor = torch.linalg.qr(layer.output, mode="r").R
    query_factor = torch.linalg.qr(layer.query.transpose(-1, -2), mode="r").R * layer.scale
    key_factor = torch.linalg.qr(layer.key[groups].transpose(-1, -2), mode="r").R * layer.scale
    values = parts.v @ output_factor.transpose(-1, -2)
    per_row = values.numel() // measure.length * measure.length
    size = max(1, PAIR_ELEMENTS // max(1, per_row))
    for start in range(0, measure.length, size):
        rows = slice(start, min(start + size, measure.length))
        seen = visible(layer.mask, measure.positions, measure.masses, rows).unsqueeze(-3)
        logits = (parts.q[..., rows, :] * layer.scale) @ parts.k.transpose(-1, -2) + measure.masses.log()[
            ..., None, None, :
        ]
        log_p = torch.where(seen, logits, -torch.inf).log_softmax(-1)
        p = torch.where(seen, log_p.exp(), torch.zeros_like(log_p))
        value_distance, value_deviation = _spread(p, values.unsqueeze(-3))
        slopes = _query_slopes(layer, measure, parts.k, query_factor, rows)
        slope_distance, slope_deviation = _spread(p, slopes)
        key_slope = _key_slopes(layer, measure, parts.q[..., rows, :], key_factor).expand(log_p.shape)
        yield _Rows(rows, log_p, seen, value_distance, value_deviation, slope_distance, slope_deviation, key_slope)


def _spread(p: Float[Tensor, "*batch rows n"], points: Float[Tensor, "*batch _ n k"]) -> tuple[Tensor, Tensor]:
    """Distances of the points from their mean under each row of p, and the largest deviation in any direction."""
    mean = (p[..., None] * points).sum(-2, keepdim=True)
    difference = points - mean
    weighted = difference * p.sqrt()[..., None]
    deviation = covariance_norm_upper(weighted.transpose(-1, -2) @ weighted).sqrt()
    return difference.norm(dim=-1), deviation


def _query_slopes(
    layer: AttentionLayer, measure: TokenMeasure, keys: Tensor, factor: Tensor, rows: slice
) -> Float[Tensor, "*batch heads _ n k"]:
    """y_ij = ds_ij/dx_i up to an isometry: the same for every row without rotation."""
    if layer.rotary is None:
        return (keys @ factor.transpose(-1, -2)).unsqueeze(-3)
    columns = []
    for row in range(rows.start, rows.stop):
        position = measure.positions[..., row : row + 1].expand(measure.positions.shape)
        columns.append(layer.rotary.rotate_back(keys, position) @ factor.transpose(-1, -2))
    return torch.stack(columns, dim=-3)


def _key_slopes(
    layer: AttentionLayer, measure: TokenMeasure, queries: Tensor, factor: Tensor
) -> Float[Tensor, "*batch heads rows _"]:
    """g_ij = |ds_ij/dx_j|: the same for every j without rotation."""
    if layer.rotary is None:
        return (queries @ factor.transpose(-1, -2)).norm(dim=-1, keepdim=True)
    columns = []
    for index in range(measure.length):
        position = measure.positions[..., index : index + 1].expand(*measure.positions.shape[:-1], queries.shape[-2])
        turned = layer.rotary.rotate_back(queries, position)
        columns.append((turned @ factor.transpose(-1, -2)).norm(dim=-1))
    return torch.stack(columns, dim=-1)


def _logit_shift(norms: HeadNorms, ball: _Ball, data: _Rows) -> Float[Tensor, "*batch heads rows n"]:
    """How far logit (i, j) can move, up to what is common to a row: |g_ij d_j + y_ij d_i + d_i A d_j| on the ball."""
    interaction = norms.interaction[:, None, None]
    own_reach, own_inverse = (_rows_of(field, data.rows)[..., None] for field in (ball.reach, ball.inverse))
    reach, inverse = (field[..., None, None, :] for field in (ball.reach, ball.inverse))
    g, b = data.key_slope, data.slope_distance
    pair = ball.eps * (g**2 * inverse + b**2 * own_inverse).sqrt()
    pair = pair + interaction * ball.eps**2 / 2 * (inverse * own_inverse).sqrt()
    alone = g * reach + b * own_reach + interaction * reach * own_reach
    index = torch.arange(alone.shape[-1])
    same = index[data.rows, None] == index[None, :]
    return torch.where(same, alone, torch.minimum(pair, alone))


def _rows_of(field: Float[Tensor, "*batch n"], rows: slice) -> Float[Tensor, "*batch 1 rows"]:
    return field[..., rows].unsqueeze(-2)


def _log_others(log_terms: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
    """log sum over all other entries, without cancellation: prefix and suffix sums."""
    before = torch.logcumsumexp(log_terms, dim=-1).roll(1, dims=-1)
    after = torch.logcumsumexp(log_terms.flip(-1), dim=-1).flip(-1).roll(-1, dims=-1)
    before[..., 0] = -torch.inf
    after[..., -1] = -torch.inf
    return torch.logaddexp(before, after)


def _softmax_interval(log_p: Tensor, shift: Tensor, seen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Lower and upper values of P'_ij, and of max_j P'_ij / P_ij, when every logit moves by at most `shift`."""
    zero = torch.zeros_like(log_p)
    log_upper = shift - torch.logaddexp(log_p + shift, _log_others(log_p - shift))
    log_lower = -shift - torch.logaddexp(log_p - shift, _log_others(log_p + shift))
    upper = torch.where(seen, ((log_p + log_upper).exp() * MARGIN).clamp_max(1.0), zero)
    lower = torch.where(seen, (log_p + log_lower).exp() / MARGIN, zero)
    ratio = torch.where(seen, log_upper.exp() * MARGIN, zero).amax(-1).clamp_min(1.0)
    return lower, upper, ratio


def _moved_deviation(deviation: Tensor, distance: Tensor, ceiling: Tensor, ratio: Tensor, motion: Tensor) -> Tensor:
    """Standard deviation over the ball: the smaller of two ways to change the weights, plus the motion of the points.

    Cov_P'(z) <= E_P'[(z - m)(z - m)^T] <= max(P'/P) Cov_P(z), and <= sum_j U_ij |z_j - m|^2.
    """
    grown = torch.where(torch.isinf(ratio), torch.inf, deviation * ratio.sqrt())
    return torch.minimum(grown, (ceiling * distance**2).sum(-1).sqrt()) + motion


def _inflate(norms: HeadNorms, ball: _Ball, data: _Rows) -> _Inflated:
    """Upper values over the ball of everything that the derivatives are made of."""
    p = torch.where(data.seen, data.log_p.exp(), torch.zeros_like(data.log_p))
    lower, ceiling, ratio = _softmax_interval(data.log_p, _logit_shift(norms, ball, data), data.seen)
    strongest = (ceiling * ball.inverse[..., None, None, :]).amax(-1)
    mean_motion = torch.minimum(ball.eps * strongest.sqrt(), ball.reach.amax(-1)[..., None, None])
    drift = torch.maximum(ceiling - p, p - lower).clamp_min(0.0)
    value_motion, slope_motion = norms.value[:, None] * mean_motion, norms.interaction[:, None] * mean_motion
    value_shift = (drift * data.value_distance).sum(-1) + value_motion
    slope_shift = (drift * data.slope_distance).sum(-1) + slope_motion
    reach, own_reach = ball.reach[..., None, None, :], _rows_of(ball.reach, data.rows)[..., None]
    value_norm, interaction = norms.value[:, None, None], norms.interaction[:, None, None]
    value_distance = data.value_distance + value_norm * reach + value_shift[..., None]
    slope_distance = data.slope_distance + interaction * reach + slope_shift[..., None]
    key_slope = torch.where(data.seen, data.key_slope + interaction * own_reach, 0.0)
    return _Inflated(
        ceiling=ceiling,
        strongest=strongest,
        value_distance=torch.where(data.seen, value_distance, 0.0),
        value_deviation=_moved_deviation(data.value_deviation, data.value_distance, ceiling, ratio, value_motion),
        slope_distance=torch.where(data.seen, slope_distance, 0.0),
        slope_deviation=_moved_deviation(data.slope_deviation, data.slope_distance, ceiling, ratio, slope_motion),
        key_slope=key_slope,
        steepest=key_slope.amax(-1),
    )


def _terms(norms: HeadNorms, ball: _Ball, rotary: bool, data: _Rows) -> _Terms:
    """One block of rows: bounds of the derivative, of the second derivative and of the hull."""
    at = _inflate(norms, ball, data)
    value_norm, interaction = norms.value[:, None], norms.interaction[:, None]
    pull = at.steepest * at.value_deviation
    row_norm = value_norm + pull if rotary else (value_norm**2 + pull**2).sqrt()
    joint = row_norm.sum(-2, keepdim=True) * row_norm
    u, d, b = at.ceiling, at.value_distance, at.slope_distance
    third_own = _smallest(
        (u * d * b**2).sum(-1),
        d.amax(-1) * at.slope_deviation**2,
        b.amax(-1) * at.value_deviation * at.slope_deviation,
    )
    third_mixed = _smallest(
        (u * d**2 * b**2).sum(-1).sqrt(), d.amax(-1) * at.slope_deviation, b.amax(-1) * at.value_deviation
    )
    cross = 2 * (value_norm * at.slope_deviation + interaction * at.value_deviation + third_mixed * at.steepest)
    balance = at.strongest.sqrt()
    safe = torch.where(balance > 0, balance, torch.ones_like(balance))
    return _Terms(
        key_columns=(joint[..., None] * u).sum(-3),
        query_rows=(at.value_deviation * at.slope_deviation).sum(-2),
        pair_matrix=(u * (2 * (value_norm * at.steepest)[..., None] + _third_keys(at))).sum(-3),
        own_rows=third_own.sum(-2),
        cross_rows=(cross * balance).sum(-2),
        cross_matrix=((cross / (2 * safe))[..., None] * u).sum(-3),
        cross_own=(cross * balance / 2).sum(-2),
        hull_rows=_hull_rows(norms, ball, data),
    )


def _third_keys(at: _Inflated) -> Float[Tensor, "*batch heads rows n"]:
    """Coefficients c_ij with |E[(u - m)(c - c_bar)^2]| <= sum_j P_ij c_ij |d_j|^2, c_j = <g_ij, d_j>; best per row."""
    split = at.value_distance * at.key_slope**2 + 2 * (at.value_deviation * at.steepest**2)[..., None]
    whole = (at.value_distance.amax(-1) * at.steepest**2)[..., None].expand(split.shape)
    better = (at.ceiling * split).sum(-1, keepdim=True) < (at.ceiling * whole).sum(-1, keepdim=True)
    return torch.where(better, split, whole)


def _smallest(*candidates: Tensor) -> Tensor:
    return torch.stack(candidates).amin(0)


def _hull_rows(norms: HeadNorms, ball: _Ball, data: _Rows) -> Float[Tensor, "*batch rows"]:
    """sum_h (farthest visible value from the row's own mean + |W_O W_V| times the largest reach of a visible atom)."""
    distance = torch.where(data.seen, data.value_distance, torch.zeros_like(data.value_distance)).amax(-1)
    reach = torch.where(data.seen, ball.reach[..., None, None, :], 0.0).amax(-1)
    return (distance + norms.value[:, None] * reach).sum(-2)

"""Interval softmax: what derivatives are made of, over a ball of tokens (docs/proofs/local.md#interval-softmax)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.rounding import UNIT
from robust_attn.bounds.bent import Bend
from robust_attn.bounds.rows import RowBlock
from robust_attn.budget import Budget
from robust_attn.spectral.norms import HeadNorms

MARGIN = 1 + 5e-11
"""Relative margin for the rounding of sums of positive terms, over at most a hundred thousand tokens, in float64."""

SOFTPLUS_ENDS = 700.0
"""Beyond it log(1 + e^x) is x to every digit, and e^x may overflow."""
SUM_UNITS = 8
RATIO_PARTS = (0.0, 0.5)
"""Powers of the largest ratio P'/P at which weights are divided into a part in proportion to P and a rest."""
FAVOUR = 0.4
"""How much of a heavy atom's interaction with the others is charged to itself; the rest is charged to them."""


@dataclass(frozen=True, eq=False)
class Ball:
    """The ball: radius eps in the weighted norm, weights and their inverses (zero for padding), reach of each atom."""

    eps: float
    weights: Float[Tensor, "*batch n"]
    inverse: Float[Tensor, "*batch n"]
    reach: Float[Tensor, "*batch n"]

    @property
    def with_sink(self) -> Ball:
        """The same with one more key that does not move."""
        padded = (functional.pad(field, (0, 1)) for field in (self.weights, self.inverse, self.reach))
        return Ball(self.eps, *padded)

    @property
    def centre(self) -> Ball:
        """The same weights with radius zero."""
        return Ball(0.0, self.weights, self.inverse, torch.zeros_like(self.reach))


@dataclass(frozen=True, eq=False)
class Inflated:
    """The same quantities as upper values over the ball, L <= P <= U, and weights r with Var_P(z) <= sum_j r_j z_j^2.

    `strongest` is the largest r_ij / w_j of each row. At any point of the ball, along any displacement of it, slopes of
    a row's logits have at most the standard deviation `logit_deviation`, and none is farther than `logit_slope` from
    their mean under P at the tokens (in which what norms of queries and keys add is left out).
    """

    floor: Float[Tensor, "*batch heads rows keys"]
    ceiling: Float[Tensor, "*batch heads rows keys"]
    variance: Float[Tensor, "*batch heads rows keys"]
    strongest: Float[Tensor, "*batch heads rows"]
    value_distance: Float[Tensor, "*batch heads rows keys"]
    value_deviation: Float[Tensor, "*batch heads rows"]
    slope_distance: Float[Tensor, "*batch heads rows keys"]
    slope_deviation: Float[Tensor, "*batch heads rows"]
    key_slope: Float[Tensor, "*batch heads rows keys"]
    steepest: Float[Tensor, "*batch heads rows"]
    logit_slope: Float[Tensor, "*batch heads rows keys"]
    logit_deviation: Float[Tensor, "*batch heads rows"]


def ball_of(measure: TokenMeasure, budget: Budget) -> Ball:
    """The ball of a budget around a measure, in float64."""
    weights = budget.weights(measure).double()
    inverse = torch.where(weights > 0, 1 / weights.clamp_min(1e-300), torch.zeros_like(weights))
    return Ball(budget.hilbert_radius(measure), weights, inverse, budget.reach(measure).double())


def _logit_shift(
    norms: HeadNorms, ball: Ball, data: RowBlock, bend: Bend | None
) -> Float[Tensor, "*batch heads rows keys"]:
    """How far logit (i, j) can move, up to what is common to a row: |g_ij d_j + y_ij d_i + d_i A d_j| on the ball.

    From the logit as computed: what rounding may have done to it is a part of the way.
    """
    interaction = norms.interaction[:, None, None]
    own_reach, own_inverse = (_rows_of(field, data.rows)[..., None] for field in (ball.reach, ball.inverse))
    reach, inverse = (field[..., None, None, :] for field in (ball.reach, ball.inverse))
    g, b = data.key_slope, data.slope_distance
    pair = ball.eps * (g**2 * inverse + b**2 * own_inverse).sqrt()
    pair = pair + interaction * (ball.eps * ball.eps) / 2 * (inverse * own_inverse).sqrt()
    alone = g * reach + b * own_reach + interaction * reach * own_reach
    own = _own_keys(data.rows, alone)
    shift = torch.where(own, alone, torch.minimum(pair, alone)) + data.logit_error[..., None, None]
    return shift if bend is None else shift + bend.logit_shift


@dataclass(frozen=True, eq=False)
class CentredShift:
    """How far logit (i, j) less its row's mean under P moves on the ball: to first order, and by its bilinear part."""

    first: Float[Tensor, "*batch heads rows keys"]
    second: Float[Tensor, "*batch heads rows keys"]


def centred_shift(norms: HeadNorms, ball: Ball, data: RowBlock, p: Tensor) -> CentredShift:
    """Of s_ij - sum_l P_il s_il as one function of all tokens: its gradient has one part for each of them.

    That of x_l is (1{j=l} - P_il) g_il, and x_i has y_ij less its mean besides. Either one vector of norm eps follows
    them all, or every token goes as far as it can alone.
    """
    own, units = _own_keys(data.rows, p), UNIT * (p.shape[-1] + 10)
    own_reach, own_inverse = (_rows_of(field, data.rows)[..., None] for field in (ball.reach, ball.inverse))
    reach, inverse = (field[..., None, None, :] for field in (ball.reach, ball.inverse))
    drawn, lifted = p * data.key_slope, (1 - p + units).clamp_max(1.0) * data.key_slope
    others, query = torch.where(own, 0.0, drawn), data.slope_distance + torch.where(own, lifted, 0.0)
    query = query + torch.where(own, 0.0, torch.where(own, drawn, 0.0).sum(-1, keepdim=True))
    lifted = torch.where(own, 0.0, lifted)
    squares, lengths = (others**2 * inverse), others * reach
    sums, ways = squares.sum(-1, keepdim=True), lengths.sum(-1, keepdim=True)
    rest = (sums - squares).clamp_min(0.0) + units * sums
    together = ball.eps * (rest + lifted**2 * inverse + query**2 * own_inverse).sqrt()
    alone = (ways - lengths).clamp_min(0.0) + units * ways + lifted * reach + query * own_reach
    mean = torch.minimum((p * reach).sum(-1), ball.eps * (p * inverse).amax(-1).sqrt())
    pair = torch.minimum(own_reach * reach, (ball.eps * ball.eps / 2) * (inverse * own_inverse).sqrt())
    pair = torch.where(own, own_reach * reach, pair)
    second = norms.interaction[:, None, None] * (pair + own_reach * mean[..., None])
    return CentredShift(torch.minimum(together, alone) * MARGIN, second * MARGIN)


def _own_keys(rows: slice, field: Float[Tensor, "*batch rows keys"]) -> Bool[Tensor, "rows keys"]:
    """Whether a key is the row's own atom."""
    index = torch.arange(field.shape[-1], device=field.device)
    return index[rows, None] == index


def _rows_of(field: Float[Tensor, "*batch n"], rows: slice) -> Float[Tensor, "*batch 1 rows"]:
    return field[..., rows].unsqueeze(-2)


def log_others(log_terms: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
    """log sum over all other entries. What is taken off a sum is at most half of it: of the largest entry the others
    are added up by themselves.
    """
    largest = log_terms.amax(-1, keepdim=True)
    heaviest = heaviest_atom(log_terms)
    scale = torch.where(torch.isinf(largest), 0.0, largest)
    terms = (log_terms - scale).exp()
    total = terms.sum(-1, keepdim=True)
    without = torch.where(torch.isinf(total), torch.inf, (total - terms).log() + scale)
    return torch.where(heaviest, log_terms.masked_fill(heaviest, -torch.inf).logsumexp(-1, keepdim=True), without)


def softmax_interval(log_p: Tensor, shift: Tensor, seen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Lower and upper values of P'_ij, and of max_j P'_ij / P_ij, when every logit moves by at most `shift`."""
    zero = torch.zeros_like(log_p)
    shift = widened(shift, log_p)
    log_upper = log_ceiling(log_p, shift)
    log_lower = -functional.softplus(log_others(log_p + shift) - (log_p - shift), threshold=SOFTPLUS_ENDS)
    upper = torch.where(seen, (log_upper.exp() * MARGIN).clamp_max(1.0), zero)
    lower = torch.where(seen, log_lower.exp() / MARGIN, zero)
    ratio = torch.where(seen, (log_upper - log_p).exp() * MARGIN, zero).amax(-1).clamp_min(1.0)
    return lower, upper, ratio


def log_ceiling(log_p: Float[Tensor, "*batch n"], shift: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
    """log of the largest P'_ij when every logit moves by at most `shift`: -log(1 + e^x), x what the others have less.

    However large a shift or small a weight, nothing that matters is absorbed or underflows.
    """
    return -functional.softplus(log_others(log_p - shift) - (log_p + shift), threshold=SOFTPLUS_ENDS)


def widened(shift: Tensor, log_p: Tensor) -> Tensor:
    """Shifts with what rounding may do to sums of them and of log P, of either size."""
    known = torch.where(log_p > -torch.inf, log_p, 0.0)
    return shift + SUM_UNITS * UNIT * (shift + known.abs())


def _under_other_weights(deviation: Tensor, distance: Tensor, p: Tensor, ceiling: Tensor, ratio: Tensor) -> Tensor:
    """Standard deviation over the ball of points that stay, the smallest of several ways to change the weights.

    Cov_P'(z) <= E_P'[(z - m)(z - m)^T], and U <= t P + (U - t P)_+ for any t: at most t Cov_P(z), and the rest times
    squares of distances. With t the largest ratio there is no rest; with t = 0 the rest is all.
    """
    squares = distance**2
    grown = [torch.where(torch.isinf(ratio), torch.inf, deviation**2 * ratio), (ceiling * squares).sum(-1)]
    for part in RATIO_PARTS:
        kept = ratio.clamp_max(1e300) ** part
        rest = ((ceiling - kept[..., None] * p).clamp_min(0.0) * squares).sum(-1)
        grown.append((kept * deviation**2 + rest) * MARGIN)
    return torch.stack(grown).amin(0).sqrt()


def variance_weights(floor: Tensor, ceiling: Tensor, inverse: Tensor) -> Tensor:
    """r with diag(P) - P P^T <= diag(r) for every P between floor and ceiling, the best of three in each row.

    U, because P P^T is positive. 2 P (1 - P) by Gershgorin: row j of diag(P) - P P^T has that absolute sum. And
    Gershgorin with the heaviest atom h weighted by FAVOUR: (1 + f) P_h (1 - P_h) there, and P_h / f in place of P_h in
    the sums of the others. The last two are smaller where one atom draws most of a row's attention.
    """
    nearest_half = torch.full_like(ceiling, 0.5).clamp(floor, ceiling)
    alone = nearest_half * (1 - nearest_half) * MARGIN
    heaviest = heaviest_atom(ceiling)
    top, top_floor = (torch.where(heaviest, p, 0.0).amax(-1, keepdim=True) for p in (ceiling, floor))
    rest = (1 - floor - top_floor).clamp_min(0.0)
    favoured = torch.where(heaviest, (1 + FAVOUR) * alone, alone + ceiling * (rest + top / FAVOUR) * MARGIN)
    return smallest_rows((ceiling, 2 * alone, favoured), inverse)


def heaviest_atom(ceiling: Float[Tensor, "*batch n"]) -> Bool[Tensor, "*batch n"]:
    """True at one atom of each row, the one with the largest ceiling (the first where several share it)."""
    return torch.nn.functional.one_hot(ceiling.argmax(-1), ceiling.shape[-1]).bool()


def smallest_rows(candidates: Sequence[Tensor], inverse: Tensor) -> Tensor:
    """Row by row the candidate whose largest entry, in units of 1 / w_j, is smallest."""
    stacked = torch.stack(tuple(candidates))
    choice = (stacked * inverse).amax(-1, keepdim=True).argmin(0, keepdim=True)
    return stacked.gather(0, choice.expand(1, *stacked.shape[1:]))[0]


def inflated(norms: HeadNorms, ball: Ball, data: RowBlock, bend: Bend | None = None) -> Inflated:
    """Upper values over the ball of everything that the derivatives are made of.

    `bend` is what norms of queries and keys add; `norms` are then those of the same ball.
    """
    p = torch.where(data.seen, data.log_p.exp(), torch.zeros_like(data.log_p))
    centred, inverse = centred_shift(norms, ball, data, p), ball.inverse[..., None, None, :]
    lower, ceiling, ratio = _attention(norms, ball, data, bend, _log_rise(centred, data, p, bend))
    variance = variance_weights(lower, ceiling, inverse)
    heaviest = (ceiling * inverse).amax(-1)
    mean_motion = torch.minimum(ball.eps * heaviest.sqrt(), ball.reach.amax(-1)[..., None, None])
    drift = torch.maximum(ceiling - p, p - lower).clamp_min(0.0)
    value_motion, slope_motion = norms.value[:, None] * mean_motion, norms.interaction[:, None] * mean_motion
    value_spread = _under_other_weights(data.value_deviation, data.value_distance, p, ceiling, ratio)
    slope_spread = _under_other_weights(data.slope_deviation, data.slope_distance, p, ceiling, ratio)
    reach, own_reach = ball.reach[..., None, None, :], _rows_of(ball.reach, data.rows)[..., None]
    value_norm, interaction = norms.value[:, None, None], norms.interaction[:, None, None]
    turned = torch.zeros_like(slope_motion) if bend is None else bend.slope
    key_slope = data.key_slope + interaction * own_reach
    key_slope = torch.where(data.seen, key_slope if bend is None else key_slope + bend.key_slope, 0.0)
    slope_deviation = slope_spread + slope_motion + turned
    logit_slope = torch.where(data.seen, centred.first + 2 * centred.second, 0.0)
    logit_deviation = _logit_deviation(ball, data.rows, variance, key_slope, slope_deviation)
    if bend is None:
        logit_deviation = torch.minimum(logit_deviation, mean_square_root(ceiling, logit_slope))
    way = logit_deviation + data.logit_error[..., None]
    value_shift = torch.minimum((drift * data.value_distance).sum(-1), value_spread * way) + value_motion
    slope_shift = torch.minimum((drift * data.slope_distance).sum(-1), slope_spread * way) + slope_motion
    value_distance = data.value_distance + value_norm * reach + value_shift[..., None]
    slope_distance = data.slope_distance + interaction * reach + (slope_shift + 2 * turned)[..., None]
    return Inflated(
        floor=lower,
        ceiling=ceiling,
        variance=variance,
        strongest=(variance * inverse).amax(-1),
        value_distance=torch.where(data.seen, value_distance, 0.0),
        value_deviation=value_spread + value_motion,
        slope_distance=torch.where(data.seen, slope_distance, 0.0),
        slope_deviation=slope_deviation,
        key_slope=key_slope,
        steepest=key_slope.amax(-1),
        logit_slope=logit_slope,
        logit_deviation=logit_deviation,
    )


def mean_square_root(ceiling: Tensor, sizes: Tensor) -> Float[Tensor, "*batch heads rows"]:
    """(E z^2)^{1/2} at most, for |z_j| <= sizes_j and any weights that sum to one below the ceiling."""
    return torch.minimum((ceiling * sizes**2).sum(-1).sqrt() * MARGIN, sizes.amax(-1))


def _log_rise(centred: CentredShift, data: RowBlock, p: Tensor, bend: Bend | None) -> Tensor:
    """log P'_ij / P_ij at most, by Jensen: what a logit rises more than the mean of its row, and rounding."""
    rise = centred.first + centred.second + 2 * data.logit_error[..., None, None]
    return rise if bend is None else rise + bend.logit_shift + (p * bend.logit_shift).sum(-1, keepdim=True)


def _attention(
    norms: HeadNorms, ball: Ball, data: RowBlock, bend: Bend | None, rise: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Lower and upper values of P' and of max_j P'_ij / P_ij: from corners, or from `rise` where that is less."""
    lower, ceiling, ratio = softmax_interval(data.log_p, _logit_shift(norms, ball, data, bend), data.seen)
    rise = widened(torch.where(torch.isnan(rise), torch.inf, rise), data.log_p)
    raised = torch.where(data.seen, (data.log_p + rise).exp() * MARGIN, 0.0)
    highest = torch.where(data.seen, rise, 0.0).amax(-1).exp() * MARGIN
    return lower, torch.minimum(ceiling, raised), torch.minimum(ratio, highest.clamp_min(1.0))


def _logit_deviation(
    ball: Ball, rows: slice, variance: Tensor, key_slope: Tensor, slope_deviation: Tensor
) -> Float[Tensor, "*batch heads rows"]:
    """The standard deviation of <g_ij, d_j> + <y_ij, d_i> in j, at most, for d in the ball.

    The keys but i's own cost (max_j r_j |g_ij|^2 / w_j)^{1/2} of their part of the budget, and d_i as key and as query
    the sum of both over sqrt(w_i).
    """
    own, squares = _own_keys(rows, variance), variance * key_slope**2
    keys = (torch.where(own, 0.0, squares) * ball.inverse[..., None, None, :]).amax(-1)
    itself = (torch.where(own, squares, 0.0).amax(-1).sqrt() + slope_deviation) ** 2
    return ball.eps * (keys + itself * _rows_of(ball.inverse, rows)).sqrt() * MARGIN

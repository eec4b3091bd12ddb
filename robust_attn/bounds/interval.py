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
from robust_attn.bounds.rows import RowBlock
from robust_attn.budget import Budget
from robust_attn.spectral.norms import HeadNorms

MARGIN = 1 + 5e-11
"""Relative margin for the rounding of sums of positive terms, over at most a hundred thousand tokens, in float64."""

SOFTPLUS_ENDS = 700.0
"""Beyond it log(1 + e^x) is x to every digit, and e^x may overflow."""
SUM_UNITS = 8
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

    `strongest` is the largest r_ij / w_j of each row.
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


def ball_of(measure: TokenMeasure, budget: Budget) -> Ball:
    """The ball of a budget around a measure, in float64."""
    weights = budget.weights(measure).double()
    inverse = torch.where(weights > 0, 1 / weights.clamp_min(1e-300), torch.zeros_like(weights))
    return Ball(budget.hilbert_radius(measure), weights, inverse, budget.reach(measure).double())


def _logit_shift(norms: HeadNorms, ball: Ball, data: RowBlock) -> Float[Tensor, "*batch heads rows n"]:
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
    index = torch.arange(alone.shape[-1], device=alone.device)
    same = index[data.rows, None] == index[None, :]
    return torch.where(same, alone, torch.minimum(pair, alone)) + data.logit_error[..., None, None]


def _rows_of(field: Float[Tensor, "*batch n"], rows: slice) -> Float[Tensor, "*batch 1 rows"]:
    return field[..., rows].unsqueeze(-2)


def log_others(log_terms: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
    """log sum over all other entries, without cancellation: prefix and suffix sums."""
    before = torch.logcumsumexp(log_terms, dim=-1).roll(1, dims=-1)
    after = torch.logcumsumexp(log_terms.flip(-1), dim=-1).flip(-1).roll(-1, dims=-1)
    before[..., 0] = -torch.inf
    after[..., -1] = -torch.inf
    return torch.logaddexp(before, after)


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


def _moved_deviation(deviation: Tensor, distance: Tensor, ceiling: Tensor, ratio: Tensor, motion: Tensor) -> Tensor:
    """Standard deviation over the ball: the smaller of two ways to change the weights, plus the motion of the points.

    Cov_P'(z) <= E_P'[(z - m)(z - m)^T] <= max(P'/P) Cov_P(z), and <= sum_j U_ij |z_j - m|^2.
    """
    grown = torch.where(torch.isinf(ratio), torch.inf, deviation * ratio.sqrt())
    return torch.minimum(grown, (ceiling * distance**2).sum(-1).sqrt()) + motion


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


def inflated(norms: HeadNorms, ball: Ball, data: RowBlock) -> Inflated:
    """Upper values over the ball of everything that the derivatives are made of."""
    p = torch.where(data.seen, data.log_p.exp(), torch.zeros_like(data.log_p))
    lower, ceiling, ratio = softmax_interval(data.log_p, _logit_shift(norms, ball, data), data.seen)
    inverse = ball.inverse[..., None, None, :]
    variance = variance_weights(lower, ceiling, inverse)
    heaviest = (ceiling * inverse).amax(-1)
    mean_motion = torch.minimum(ball.eps * heaviest.sqrt(), ball.reach.amax(-1)[..., None, None])
    drift = torch.maximum(ceiling - p, p - lower).clamp_min(0.0)
    value_motion, slope_motion = norms.value[:, None] * mean_motion, norms.interaction[:, None] * mean_motion
    value_shift = (drift * data.value_distance).sum(-1) + value_motion
    slope_shift = (drift * data.slope_distance).sum(-1) + slope_motion
    reach, own_reach = ball.reach[..., None, None, :], _rows_of(ball.reach, data.rows)[..., None]
    value_norm, interaction = norms.value[:, None, None], norms.interaction[:, None, None]
    value_distance = data.value_distance + value_norm * reach + value_shift[..., None]
    slope_distance = data.slope_distance + interaction * reach + slope_shift[..., None]
    key_slope = torch.where(data.seen, data.key_slope + interaction * own_reach, 0.0)
    return Inflated(
        floor=lower,
        ceiling=ceiling,
        variance=variance,
        strongest=(variance * inverse).amax(-1),
        value_distance=torch.where(data.seen, value_distance, 0.0),
        value_deviation=_moved_deviation(data.value_deviation, data.value_distance, ceiling, ratio, value_motion),
        slope_distance=torch.where(data.seen, slope_distance, 0.0),
        slope_deviation=_moved_deviation(data.slope_deviation, data.slope_distance, ceiling, ratio, slope_motion),
        key_slope=key_slope,
        steepest=key_slope.amax(-1),
    )

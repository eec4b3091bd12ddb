"""Derivatives from the third on, on a ball, for displacements of the ball (docs/proofs/local.md#higher-derivatives).

Along d, y are the slopes of a row's logits, centred under P at a point of the ball, and 2 b their own slopes; u are the
values and v = u' theirs. A derivative of order k is a sum of joint cumulants under P, each at most a few numbers times
a product of two of what is linear in d:

    kappa(u, y^k) + k (k-1) kappa(u, b, y^{k-2}) + k kappa(v, y^{k-1}) + k (k-1) (k-2) kappa(v, b, y^{k-3}) + ..

No y is farther than sigma_ij from zero, and no row's y spread by more than nu_i: what is left of every term is a
quadratic map of d.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.bounds.cumulants import all_partings, joint_partings, partings
from robust_attn.bounds.curvature import Crossing, cross_terms, key_form, moving_values, third_mixed, third_own
from robust_attn.bounds.interval import MARGIN, Ball, Inflated, inflated, mean_square_root, smallest_rows
from robust_attn.bounds.rows import RowBlock
from robust_attn.bounds.together import QuadraticRows
from robust_attn.spectral.norms import HeadNorms

PerRow = Float[Tensor, "*batch heads rows"]
PerKey = Float[Tensor, "*batch heads rows keys"]
BALANCES = (0.5, 1.0, 2.0)
"""Numbers t in (x + y)^2 <= (1 + t) x^2 + (1 + 1/t) y^2 that are tried."""


@dataclass(frozen=True, eq=False)
class RowSlopes:
    """How far the slopes of a row's logits are from their mean along displacements of the ball, wherever on it.

    `sigma` is the most for each key, `steepest` for the row, `nu` their standard deviation; `bilinear` is how far b,
    half of what the slopes change by, is from its mean.
    """

    sigma: PerKey
    steepest: PerRow
    nu: PerRow
    bilinear: PerRow

    def blocks(self, sizes: Sequence[int]) -> PerRow:
        """The product of |E y^s| over blocks of s slopes."""
        found = torch.ones_like(self.nu)
        for size in sizes:
            found = found * self.steepest ** (size - 2) * self.nu**2
        return found


def row_slopes(norms: HeadNorms, ball: Ball, data: RowBlock, at: Inflated) -> RowSlopes:
    """From slopes about their mean at the tokens: their mean at another point of the ball is not far from that."""
    mean = torch.minimum((at.ceiling * at.logit_slope).sum(-1) * MARGIN, at.logit_slope.amax(-1))
    mean = torch.minimum(mean, at.logit_deviation * (at.logit_deviation + data.logit_error[..., None]))
    sigma = torch.where(data.seen, at.logit_slope + mean[..., None], 0.0)
    steepest, farthest = sigma.amax(-1), ball.reach.amax(-1)[..., None, None]
    bilinear = 2 * norms.interaction[:, None] * ball.reach[..., None, data.rows] * farthest
    return RowSlopes(sigma, steepest, torch.minimum(at.logit_deviation, steepest), bilinear)


@dataclass(frozen=True, eq=False)
class Shares:
    """What the derivative of one order leaves beside a quadratic map of d.

    `far` and `pull` stand before y^2 in the moments with values, with the mean and the root mean square of `far`;
    `strength`, half of it, before sd(v) sd(y), `bilinear` before sd(b), `moving` before sd(v) sd(b).
    """

    far: PerKey
    mean: PerRow
    spread: PerRow
    pull: PerRow
    strength: PerRow
    bilinear: PerRow
    moving: PerRow


def shares(order: int, at: Inflated, slopes: RowSlopes) -> Shares:
    """Of the derivative of that order, three or more, each cumulant term by term."""
    spreads = _spreads(order - 1, at, slopes)
    far = slopes.sigma ** (order - 2) * at.value_distance
    mean = torch.minimum((at.ceiling * far).sum(-1) * MARGIN, spreads[-1])
    return Shares(
        far=far,
        mean=mean,
        spread=spreads[-1],
        pull=_pull(order, spreads, slopes),
        strength=order / 2 * _moving_values(order - 1, slopes),
        bilinear=_with_values(order, spreads, slopes),
        moving=_with_moving_values(order, slopes),
    )


def _spreads(count: int, at: Inflated, slopes: RowSlopes) -> list[PerRow]:
    """(E <e, u>^2 y^{2a})^{1/2} at most, for a = 0, 1, .. below `count` and any unit e."""
    found = [at.value_deviation]
    for power in range(1, count):
        each = mean_square_root(at.ceiling, slopes.sigma**power * at.value_distance)
        found.append(torch.minimum(each, slopes.steepest * found[-1]))
    return found


def _pull(order: int, spreads: Sequence[PerRow], slopes: RowSlopes) -> PerRow:
    """c with |kappa(u, y^order) - E[u y^order]| <= c Var(y): one block of slopes is left in every term."""
    found = torch.zeros_like(slopes.nu)
    for each in partings(order):
        if each.others:
            first, *others = each.others
            block = slopes.steepest ** (first - 2) * slopes.blocks(others)
            found = found + each.weight * spreads[each.own - 1] * slopes.nu * block
    return found


def _moving_values(count: int, slopes: RowSlopes) -> PerRow:
    """c with |kappa(v, y^count)| <= c sd(v) sd(y); y^n and its variance times y^{n-2} have opposite signs."""
    if count == 2:
        return slopes.steepest
    pairs = math.comb(count, 2)
    top = torch.maximum(slopes.steepest**2, pairs * slopes.nu**2) * slopes.steepest ** (count - 3)
    rest = [each for each in partings(count) if each.others not in ((), (2,))]
    return sum((each.weight * slopes.steepest ** (each.own - 1) * slopes.blocks(each.others) for each in rest), top)


def _with_values(order: int, spreads: Sequence[PerRow], slopes: RowSlopes) -> PerRow:
    """c with all cumulants of u, b and slopes at most c sd(b)."""
    found = torch.zeros_like(slopes.nu)
    for each in joint_partings(order - 2):
        own = (
            spreads[each.own] if each.beside == 0 else spreads[each.own - 1] * slopes.nu * _beside(each.beside, slopes)
        )
        found = found + order * (order - 1) * each.weight * own * slopes.blocks(each.others)
    return found + spreads[0] * _several(order, slopes)


def _with_moving_values(order: int, slopes: RowSlopes) -> PerRow:
    """c with all cumulants of v, b and slopes at most c sd(v) sd(b)."""
    found = torch.zeros_like(slopes.nu)
    for each in joint_partings(order - 3):
        own = slopes.steepest**each.own
        if each.beside:
            own = slopes.steepest ** (each.own - 1) * slopes.nu * _beside(each.beside, slopes)
        found = found + order * (order - 1) * (order - 2) * each.weight * own * slopes.blocks(each.others)
    return found + order * _several(order - 1, slopes)


def _beside(count: int, slopes: RowSlopes) -> PerRow:
    """c with |E b y^count| <= c sd(b)."""
    return slopes.steepest ** (count - 1) * slopes.nu


def _several(order: int, slopes: RowSlopes) -> PerRow:
    """Cumulants with two b and more, over sd(b) and the deviation of what they are taken with.

    n!/(p! q!) of them have p b and q slopes, n = 2p + q the order; all but one b and all slopes at their farthest.
    """
    found = torch.zeros_like(slopes.nu)
    for bent in range(2, order // 2 + 1):
        straight = order - 2 * bent
        times = math.factorial(order) // (math.factorial(bent) * math.factorial(straight))
        sizes = slopes.bilinear ** (bent - 1) * slopes.steepest**straight
        found = found + times * all_partings(bent + straight + 1) * sizes
    return found


def higher_rows(norms: HeadNorms, ball: Ball, data: RowBlock, orders: Sequence[int]) -> tuple[QuadraticRows, ...]:
    """One block of rows of each derivative: quadratic maps of d, times what the ball allows beside."""
    at = inflated(norms, ball, data)
    slopes = row_slopes(norms, ball, data, at)
    keys = key_form(norms, ball, data, at, at.variance)
    return tuple(_rows(norms, ball, data, _Known(at, keys, shares(order, at, slopes))) for order in orders)


@dataclass(frozen=True, eq=False)
class _Known:
    """What the rows of one order are made of; `keys` is the key form with the variance weights."""

    at: Inflated
    keys: Float[Tensor, "*batch rows keys"]
    share: Shares


def _rows(norms: HeadNorms, ball: Ball, data: RowBlock, known: _Known) -> QuadraticRows:
    at, share = known.at, known.share
    moments = key_form(norms, ball, data, at, key_weights(at, share, ball.inverse[..., None, None, :]))
    moving = key_form(norms, ball, data, at, share.strength[..., None] ** 2 * at.variance)
    own = (third_own(at, share.far) + share.pull * at.slope_deviation**2).sum(-2)
    mixed = third_mixed(at, share.far) + share.pull * at.slope_deviation
    crossing = Crossing(2 * share.strength * at.slope_deviation, share.bilinear, 2 * mixed)
    rows, matrix = cross_terms(norms, ball, at, known.keys, crossing, (2 * own.sqrt(), moments))
    pairs = moments + moving_values(norms, at, moving, share.strength) + _moving_slopes(norms, ball, data, at, share)
    return QuadraticRows(pairs=pairs * MARGIN, own=own * MARGIN, cross_rows=rows * MARGIN, cross_matrix=matrix * MARGIN)


def key_weights(at: Inflated, share: Shares, inverse: Tensor) -> PerKey:
    """z with E[(far + pull) (c - c_bar)^2] <= sum_j z_j c_j^2 for any c, far and pull as in `Shares`.

    E[far (c - c_bar)^2] <= E[far c^2] + 2 |c_bar| E[far |c|] + c_bar^2 E far, and c_bar^2 <= E c^2; or by Young's
    inequality with one of BALANCES; or the largest of far times the variance of c.
    """
    split = at.ceiling * (share.far + (2 * share.spread + share.mean)[..., None])
    whole = at.variance * share.far.amax(-1, keepdim=True)
    young = [at.ceiling * ((1 + t) * share.far + (1 + 1 / t) * share.mean[..., None]) for t in BALANCES]
    return smallest_rows((split, whole, *young), inverse) + share.pull[..., None] * at.variance


def _moving_slopes(
    norms: HeadNorms, ball: Ball, data: RowBlock, at: Inflated, share: Shares
) -> Float[Tensor, "*batch rows keys"]:
    """What sd(v) sd(b) comes to per |d_j|^2, with |d_i| at most the reach of i."""
    weighted = share.moving[..., None] * at.variance
    apart = ((norms.value * norms.interaction)[:, None, None] * weighted).sum(-3)
    together = norms.stacked_value * norms.stacked_interaction * weighted.amax(-3)
    return ball.reach[..., data.rows, None] * torch.minimum(apart, together)

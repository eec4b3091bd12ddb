"""Second derivatives on a ball: the terms of o'', each held in the cheapest way (docs/proofs/local.md#curvature).

With c_j = <g_ij, d_j> and a_j = <y_ij, d_i> the slopes of the logits along a displacement d, and u the values:
moving values and moving keys, 2 Cov(u', c); the third moment of the keys, E[(u - m)(c - c_bar)^2]; that of the query,
E[(u - m)(a - a_bar)^2]; and what is linear in d_i and in the d_j (`cross_terms`). Third derivatives
and higher are put together from the same parts (`higher.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.bounds.interval import FAVOUR, MARGIN, Ball, Inflated, heaviest_atom, smallest_rows
from robust_attn.bounds.rows import RowBlock
from robust_attn.spectral.matrix_norms import covariance_norm_upper
from robust_attn.spectral.norms import HeadNorms

ALIKE = 1.02
"""Weights of heads that grow from one ball to another by factors this near to one another, squared, count as
proportional."""


@dataclass(frozen=True, eq=False)
class Crossing:
    """Coefficients, head by head, of what is linear in d_i and in the d_j.

    For |d_i| = 1: `moving` times sd(<e, u'>), `bilinear` times sd(b) and `third` times sd(s' of the keys) bound the
    values that move, the slopes that change and the mixed moments.
    """

    moving: Float[Tensor, "*batch heads rows"]
    bilinear: Float[Tensor, "*batch heads rows"]
    third: Float[Tensor, "*batch heads rows"]


def cross_terms(
    norms: HeadNorms, ball: Ball, at: Inflated, keys: Tensor, crossing: Crossing, *others: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """What is linear in d_i and in the d_j, per row as it is and on |d_j|^2 (`together.py: QuadraticRows`).

    Each term is held head by head or with the heads together (Cauchy-Schwarz over heads and atoms), whichever is
    smaller; `others` are more ways, coefficient and kernel, to hold the mixed moments.
    """
    inverse = ball.inverse[..., None, :]
    weighted = (crossing.moving[..., None] ** 2 * at.variance).sum(-3)
    any_head = at.variance.amax(-3)
    moving = _either(
        _apart(norms.value[:, None] * crossing.moving, at, ball),
        _mixed(torch.full_like(crossing.moving[..., 0, :], norms.beside_value), weighted, inverse),
        _mixed(norms.stacked_value * _root_sum(crossing.moving), any_head, inverse),
    )
    bilinear = _either(
        _apart(norms.interaction[:, None] * crossing.bilinear, at, ball),
        _mixed(norms.stacked_interaction * _root_sum(crossing.bilinear), any_head, inverse),
    )
    mixed_third = _either(
        _apart(crossing.third * at.steepest, at, ball),
        _mixed(_root_sum(crossing.third), keys, inverse),
        *(_mixed(coefficient, kernel, inverse) for coefficient, kernel in others),
    )
    terms = (moving, bilinear, mixed_third)
    return torch.stack([rows for rows, _ in terms]).sum(0), torch.stack([matrix for _, matrix in terms]).sum(0)


def second_crossing(at: Inflated) -> Crossing:
    """Of the second derivative: 2 Cov(u', s' of the query), Cov(u, s'') and the mixed third moment."""
    steep = at.slope_distance.amax(-1) * at.value_deviation
    third = torch.minimum(third_mixed(at, at.value_distance), steep)
    return Crossing(2 * at.slope_deviation, 2 * at.value_deviation, 2 * third)


def _root_sum(values: Float[Tensor, "*batch heads rows"]) -> Float[Tensor, "*batch rows"]:
    """(sum_h x_h^2)^{1/2}."""
    return values.square().sum(-2).sqrt()


def _mixed(coefficient: Tensor, kernel: Tensor, inverse: Tensor) -> tuple[Tensor, Tensor]:
    """c_i |d_i| (sum_j k_ij |d_j|^2)^{1/2}, per row as it is, and on |d_j|^2 by 2xy <= t x^2 + y^2 / t."""
    balance = (kernel * inverse).amax(-1).sqrt()
    return coefficient * balance, (coefficient / (2 * _positive(balance)))[..., None] * kernel


def _apart(coefficient: Float[Tensor, "*batch heads rows"], at: Inflated, ball: Ball) -> tuple[Tensor, Tensor]:
    """The same added up over heads, each with its own weights."""
    rows, matrix = _mixed(coefficient, at.variance, ball.inverse[..., None, None, :])
    return rows.sum(-2), matrix.sum(-3)


def _either(*ways: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Row by row the smallest of several ways to hold a term."""
    rows, matrices = torch.stack([rows for rows, _ in ways]), torch.stack([matrix for _, matrix in ways])
    best, choice = rows.min(0)
    return best, matrices.gather(0, choice[None, ..., None].expand(1, *matrices.shape[1:]))[0]


@dataclass(frozen=True, eq=False)
class Joined:
    """Upper values of the root of the largest eigenvalue of sum_h w^h_ij g g^T at the tokens, with the weights w."""

    weights: Float[Tensor, "*batch heads rows n"]
    root: Float[Tensor, "*batch rows n"]

    def at_weights(self, weights: Float[Tensor, "*batch heads rows n"]) -> Joined | None:
        """The same with other weights, from how many times the largest of them is these; None where heads differ.

        The form grows with every weight, so with a common factor it is that factor times as large.
        """
        ratio = torch.where(weights > 0, weights / self.weights, 0.0)
        most, least = ratio.amax(-3), ratio.amin(-3)
        if not bool(((most <= ALIKE**2 * least) & most.isfinite()).all()):
            return None
        return Joined(weights, self.root * most.sqrt())


def joined(data: RowBlock, weights: Float[Tensor, "*batch heads rows n"], near: Joined | None = None) -> Joined | None:
    """The heads together at the tokens; from those of weights that are `near`, where these are nearly proportional.

    With G the Gram matrix of the slopes the eigenvalue is that of sqrt(w) G sqrt(w). None where G is not known.
    """
    if data.key_gram is None:
        return None
    found = None if near is None else near.at_weights(weights)
    if found is not None:
        return found
    root = weights.sqrt().movedim(-3, -1)
    return Joined(weights, covariance_norm_upper(root[..., :, None] * data.key_gram * root[..., None, :]).sqrt())


def key_form(
    norms: HeadNorms,
    ball: Ball,
    data: RowBlock,
    at: Inflated,
    weights: Float[Tensor, "*batch heads rows n"],
    *,
    together: Joined | None = None,
) -> Float[Tensor, "*batch rows n"]:
    """Upper values over the ball of the largest eigenvalue of sum_h w^h_ij g g^T, g = ds^h_ij/dx_j.

    One displacement of token j cannot be aligned with the slopes of all heads at once: that is what is won over adding
    heads up. On the ball each slope moves by at most |A_h| times the reach of i, which adds to the square root, as does
    what rounding may have taken. `together` is what is known of these weights at the tokens.
    """
    apart = (weights * at.key_slope**2).sum(-3)
    together = joined(data, weights) if together is None else together
    if together is None:
        return apart * MARGIN
    own = ball.reach[..., None, data.rows, None]
    moved = norms.interaction[:, None, None] * own + data.key_error[..., None, None]
    drift = (weights * moved**2).sum(-3).sqrt()
    return torch.minimum(apart, (together.root + drift) ** 2) * MARGIN


def moving_values(
    norms: HeadNorms, at: Inflated, keys: Tensor, strength: Tensor | None = None
) -> Float[Tensor, "*batch rows n"]:
    """Coefficients c_ij with 2 sum_h t_h sd(<e, u'>) sd(s' of the keys) <= sum_j c_ij |d_j|^2, the better of two ways.

    t_h is the `strength` of a head in a row, one if None, and `keys` the form of the keys with weights t_h^2 r_ij.
    Head by head 2 t_h |V_h| g_ij; or heads together, by Cauchy-Schwarz over heads and atoms and 2xy <= t x^2 + y^2 / t:
    x^2 = sum_h E<V_h^T w, d_j>^2 costs per |d_j|^2 the smaller of sum_h P |V_h|^2 and max_h P |[V_1 ...]|^2.
    """
    u, steepest = at.variance, at.steepest if strength is None else strength * at.steepest
    apart = (2 * u * norms.value[:, None, None] * steepest[..., None]).sum(-3)
    values = torch.minimum((u * norms.value[:, None, None] ** 2).sum(-3), u.amax(-3) * norms.stacked_value**2)
    balance = (keys.amax(-1) / values.amax(-1).clamp_min(1e-300)).sqrt()[..., None].clamp(1e-150, 1e150)
    together = balance * values + keys / balance
    better = together.sum(-1, keepdim=True) < apart.sum(-1, keepdim=True)
    return torch.where(better, together, apart)


def third_keys(at: Inflated, inverse: Tensor) -> Float[Tensor, "*batch heads rows n"]:
    """Coefficients z_ij with |E[(u - m)(c - c_bar)^2]| <= sum_j z_ij c_j^2 for any c; the best of four per row.

    - E[(u - m) c^2] - 2 c_bar E[(u - m) c] costs P_j (|u_j - m| + 2 sd(u));
    - the farthest value times the variance of c;
    - entry (j, k) of the form is P_j t_j (1 - 2 P_j) on the diagonal and -P_j P_k (t_j + t_k) beside it, t = u - m:
      absolute row sums, plain or with the heaviest atom favoured as in `variance_weights`.
    """
    t, u = at.value_distance, at.ceiling
    split = u * (t + 2 * at.value_deviation[..., None])
    whole = at.variance * t.amax(-1, keepdim=True)
    own = u * t * torch.maximum((1 - 2 * u).abs(), (1 - 2 * at.floor).abs())
    moment = (u * t).sum(-1, keepdim=True)
    beside = u * (t * (1 - at.floor) + (moment - u * t).clamp_min(0.0))
    heaviest = heaviest_atom(u)
    top, top_distance = (torch.where(heaviest, field, 0.0).amax(-1, keepdim=True) for field in (u, t))
    with_top = u * top * (t + top_distance)
    favoured = torch.where(heaviest, FAVOUR * beside, beside + with_top / FAVOUR)
    return smallest_rows((split, whole, (own + beside) * MARGIN, (own + favoured) * MARGIN), inverse)


def third_own(at: Inflated, far: Float[Tensor, "*batch heads rows n"]) -> Float[Tensor, "*batch heads rows"]:
    """E[|z| a^2] / |d_i|^2 for a_j = <y_ij - mean, d_i> and |z_j| <= far_j: the smaller of two ways to hold it."""
    each = (at.ceiling * far * at.slope_distance**2).sum(-1)
    return torch.minimum(each, far.amax(-1) * at.slope_deviation**2)


def second_own(at: Inflated) -> Float[Tensor, "*batch heads rows"]:
    """The third moment of the query, with one more way: the largest slope, and Cauchy-Schwarz for the rest."""
    steep = at.slope_distance.amax(-1) * at.value_deviation * at.slope_deviation
    return torch.minimum(third_own(at, at.value_distance), steep)


def third_mixed(at: Inflated, far: Float[Tensor, "*batch heads rows n"]) -> Float[Tensor, "*batch heads rows"]:
    """(E[z^2 a^2])^{1/2} / |d_i| for a_j = <y_ij - mean, d_i> and |z_j| <= far_j: the smaller of two ways."""
    each = (at.ceiling * far**2 * at.slope_distance**2).sum(-1).sqrt()
    return torch.minimum(each, far.amax(-1) * at.slope_deviation)


def _positive(values: Tensor) -> Tensor:
    """The values with zeros replaced by one: divisors whose numerators are then zero too."""
    return torch.where(values > 0, values, torch.ones_like(values))

"""Rows of a quadratic map put together in the weighted norm (docs/proofs/local.md#rows-put-together)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.bounds.interval import Ball

SHRINKS, GOLDEN = 24, (5**0.5 - 1) / 2
"""How often the interval in which the best tangent of a root is sought is made smaller by the golden ratio."""


@dataclass(frozen=True, eq=False)
class QuadraticRows:
    """Row i of a map of d is at most sum_j pairs_ij |d_j|^2 + own_i |d_i|^2 and a mixed part, a sum of terms
    C |d_i| (sum_j k_ij |d_j|^2)^{1/2}.

    With beta = (max_j k_ij / w_j)^{1/2}, `cross_rows` is the sum of C beta, `cross_matrix` that of C k_ij / (2 beta).
    """

    pairs: Float[Tensor, "*batch rows n"]
    own: Float[Tensor, "*batch rows"]
    cross_rows: Float[Tensor, "*batch rows"]
    cross_matrix: Float[Tensor, "*batch rows n"]


def largest_value(ball: Ball, rows: QuadraticRows) -> Float[Tensor, "*batch"]:
    """An upper value of |map(d)| / |d|^2 in the weighted norm, the smaller of two ways to hold the mixed part."""
    pairs = ball.weights.sqrt()[..., None] * rows.pairs * ball.inverse[..., None, :]
    pairs = pairs + torch.diag_embed(rows.own * ball.inverse.sqrt())
    mixed = rows.cross_matrix * ball.inverse[..., None, :]
    apart = pairs + mixed + torch.diag_embed(rows.cross_rows / 2)
    form = 2 * rows.cross_rows[..., None] * mixed
    columns = pairs.norm(dim=-2)
    return torch.minimum(on_simplex(columns, (form + form.mT) / 2), apart.norm(dim=-2).amax(-1))


def on_simplex(linear: Float[Tensor, "*batch n"], form: Float[Tensor, "*batch n n"]) -> Float[Tensor, "*batch"]:
    """An upper value of sum_j l_j a_j + (a^T M a)^{1/2} over a >= 0, sum_j a_j <= 1, for l, M >= 0, M symmetric.

    (a^T M a)^{1/2} <= t/2 + a^T M a / (2 t), and a quadratic form on the simplex is at most its largest entry.
    """
    pairs, top = (linear[..., :, None] + linear[..., None, :]) / 2, form.amax((-2, -1)).sqrt()

    def at(balance: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
        positive = torch.where(balance > 0, balance, torch.ones_like(balance))
        return torch.where(top > 0, balance / 2, 0.0) + (pairs + form / (2 * positive[..., None, None])).amax((-2, -1))

    low, high = 1e-3 * top, top  # convex in t, and growing beyond the root of the largest entry
    best = at(top)
    for _ in range(SHRINKS):
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        first, second = at(left), at(right)
        best, lower = torch.minimum(best, torch.minimum(first, second)), first < second
        low, high = torch.where(lower, low, left), torch.where(lower, right, high)
    return best

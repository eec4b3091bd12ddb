"""How far pieces of atoms take the output from its derivative: docs/proofs/splitting.md#pieces.

Keys that move, `KeyRest`: what Gamma_nu(x_i) - Gamma_mu(x_i) has beyond its linear part. Queries that move,
`query_rest`: what Gamma_nu(x_i + d) - Gamma_nu(x_i) has beyond Q_i d.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from robust_attn.bounds.pieces import Centred, Drawn, Pieces, certain, drawn
from robust_attn.bounds.rows import RowBlock
from robust_attn.spectral.matrix_norms import covariance_norm_upper
from robust_attn.spectral.norms import HeadNorms

HELD = (0.0, 1 / 128, 1 / 32, 1 / 16, 1 / 12, 1 / 8, 1 / 4, 1 / 2)
"""Which shares of the heads of all rows, those with the steepest logits, are held by their hull. One is the best."""
FINEST, RATIO = 20, 1.4
"""Ways of queries are told apart from 2 R / RATIO^FINEST on, each RATIO times the one before."""


@dataclass(frozen=True, eq=False)
class KeyRest:
    """Columns over all rows: of the quadratic terms and of those that Z(nu) / Z(mu) makes; and what the hull holds.

    One line for each share of `HELD`; the squares of norms in L2(mu) per |d_j|^4 and per |d_j|^2.
    """

    bent: Float[Tensor, "shares keys"]
    scaled: Float[Tensor, "shares keys"]
    held: Float[Tensor, "shares"]

    def __add__(self, other: KeyRest) -> KeyRest:
        return KeyRest(self.bent + other.bent, self.scaled + other.scaled, self.held + other.held)

    def change(self, eps: float) -> Float[Tensor, "shares"]:
        """The norm in L2(mu), for each share."""
        columns = eps * eps * self.bent.amax(-1).sqrt() + eps * self.scaled.amax(-1).sqrt()
        return certain(columns + self.held.sqrt())


def key_rest(
    block: RowBlock, rows: Centred, norms: HeadNorms, pieces: Pieces, *, masses: Float[Tensor, "rows"], even: bool
) -> KeyRest:
    """The share of one block of rows; `even` says that all slopes of a row's logits are the same."""
    at = drawn(rows, norms, pieces, torch.zeros_like(masses))
    size, steep = norms.value[:, None], at.slope.amax(-1)
    pull = steep * rows.value_deviation
    row_norms = at.excess * ((size**2 + pull**2).sqrt() if even else size + pull)
    away = rows.hull(norms, pieces)[0] + pieces.linear(at.ceiling * (rows.value * at.slope + size[..., None]))
    lines = []
    for held in _steepest(rows):
        free = torch.where(held, 0.0, row_norms)
        bent = _bent(block, rows, norms, at, held)
        scaled = free.sum(0)[:, None] * (free[..., None] * at.ceiling).sum(0)
        lines.append(
            (
                _columns(masses[:, None] * bent**2, pieces.inverse**2),
                _columns(masses[:, None] * scaled, pieces.inverse),
                (masses * torch.where(held, away, 0.0).sum(0) ** 2).sum(),
            )
        )
    return KeyRest(*(torch.stack(field) for field in zip(*lines, strict=True)))


def _columns(terms: Float[Tensor, "rows keys"], inverse: Float[Tensor, "keys"]) -> Float[Tensor, "keys"]:
    return torch.where(inverse > 0, certain(terms).sum(0) * inverse, 0.0)


def _steepest(rows: Centred) -> list[Bool[Tensor, "heads rows"]]:
    """The heads and rows with the steepest logits, for every share of `HELD`."""
    steep = rows.key_slope.amax(-1)
    order = steep.flatten().argsort(descending=True, stable=True)
    rank = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device)).view(steep.shape)
    return [rank < share * steep.numel() for share in HELD]


def _bent(
    block: RowBlock, rows: Centred, norms: HeadNorms, at: Drawn, held: Bool[Tensor, "heads rows"]
) -> Float[Tensor, "rows keys"]:
    """c_ij with |sum_h E[P_j e^b ((u_j - Gamma)(e^t - 1 - t) + V d (e^t - 1))]| <= c_ij |d|^2, heads together."""
    weight = torch.where(held[..., None], 0.0, at.growth[..., None] * at.ceiling)
    moved = torch.where(held[..., None], 0.0, weight * at.first)
    drawing = torch.where(held[..., None], 0.0, weight * at.second * rows.value)
    apart = certain((moved * norms.value[:, None, None] * at.slope).sum(0))
    together = norms.stacked_value * _form(block, at, moved**2).sqrt()
    return _form(block, at, drawing) + torch.minimum(apart, together)


def _form(block: RowBlock, at: Drawn, weights: Float[Tensor, "heads rows keys"]) -> Float[Tensor, "rows keys"]:
    """The largest eigenvalue of sum_h w_h g_h g_h^T: the sum of squares, or that of sqrt(w) G sqrt(w).

    Slopes are known up to `key_error`, which adds to the square root (docs/proofs/local.md#key-form).
    """
    apart = certain((weights * at.slope**2).sum(0))
    if block.key_gram is None:
        return apart
    root = weights.sqrt().movedim(0, -1)
    joint = covariance_norm_upper(root[..., :, None] * block.key_gram[0] * root[..., None, :]).sqrt()
    off = (weights * block.key_error[0][:, None, None] ** 2).sum(0).sqrt()
    return torch.minimum(apart, certain((joint + off) ** 2))


def query_rest(
    rows: Centred, norms: HeadNorms, pieces: Pieces, *, reach: Float[Tensor, "rows"], radius: float
) -> Float[Tensor, "rows"]:
    """|Gamma_nu(x_i + d) - Gamma_nu(x_i) - Q_i d| / |d| at most, over all |d| up to the row's own reach.

    Way by way the smaller of two: by the derivative along it, and by twice the hull over the way. `radius` is the unit
    of the ways, which must not depend on the context: so the sum grows with the context, step by step.
    """
    hull, own = rows.hull(norms, pieces)[0], rows.value_deviation * rows.slope_deviation
    way, last = 2 * radius * RATIO**-FINEST, 0.0
    largest = torch.zeros_like(own)
    while last < float(reach.max()):
        rest = _slope_rest(rows, norms, pieces, drawn(rows, norms, pieces, reach.clamp_max(way)))
        if last > 0:
            rest = torch.minimum(rest, 2 * hull / last + own)
        largest = torch.where(reach > last, torch.maximum(largest, rest), largest)
        way, last = way * RATIO, way
    return largest.sum(0)


def _slope_rest(rows: Centred, norms: HeadNorms, pieces: Pieces, at: Drawn) -> Float[Tensor, "heads rows"]:
    """|Cov_nu,z(V y, slopes) - Cov_mu,x_i(u, slopes)| at most: weights shift, then pieces move; or both added up."""
    value, slope = norms.value[:, None] * at.motion, norms.interaction[:, None] * at.motion
    farthest_value, farthest_slope = rows.hull(norms, pieces)
    spread, steep = (
        torch.minimum((deviation**2 + at.shifted(pieces, distance**2)).sqrt(), distance.amax(-1))
        for deviation, distance in ((rows.value_deviation, rows.value), (rows.slope_deviation, rows.slope))
    )
    means = at.shifted(pieces, rows.value) * at.shifted(pieces, rows.slope)
    apart = at.shifted(pieces, rows.value * rows.slope) + means + value * steep + slope * spread + value * slope
    both = torch.minimum(spread + value, farthest_value) * torch.minimum(steep + slope, farthest_slope)
    return torch.minimum(certain(apart), both + rows.value_deviation * rows.slope_deviation)

"""What pieces of atoms can draw from one row of attention, none of them light: docs/proofs/splitting.md#pieces.

Pieces of atom j move by at most D_j. A query z within r of x_i attends to x_j with P_j(z), and to a piece of it that
moved by d with e^t times as much per mass, |t| <= G_j |d| <= T_j = G_j D_j. Everything here is an upper value over all
such z and all pieces with E|d|^2 <= eps^2.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from robust_attn.attention.measure import TokenMeasure
from robust_attn.bounds.interval import MARGIN, softmax_interval
from robust_attn.bounds.rows import RowBlock
from robust_attn.bounds.split_rows import psi_1, psi_2, weight_excess
from robust_attn.spectral.norms import HeadNorms

SLACK = 1e-9
"""Masses that rounding may have taken from 1 / context are still held to be as heavy."""
SEEN = 1e-300
"""Attention that a seen atom draws is never taken for less: what underflows could be multiplied by e^700."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """How far pieces go: the radius, and for every key its reach D_j and 1 / m_j, both zero for a sink."""

    eps: float
    reach: Float[Tensor, "keys"]
    inverse: Float[Tensor, "keys"]

    @classmethod
    def of(cls, measure: TokenMeasure, eps: float, *, context: float, support: float, sink: bool) -> Pieces:
        """Of one sample without padding; `context` and `support` may be infinite, but not both."""
        way = eps * least_masses(measure, context).rsqrt() * MARGIN
        reach = torch.minimum(way, measure.points.norm(dim=-1) + support)
        pad = (0, 1 if sink else 0)
        return cls(eps, functional.pad(reach, pad), functional.pad(1 / measure.masses, pad))

    def linear(self, field: Float[Tensor, "*rows keys"]) -> Float[Tensor, "*rows"]:
        """What sum_j f_j |E[d | x_j]| is at most: eps (sum_j f_j^2 / m_j)^{1/2}, by Cauchy-Schwarz."""
        return self.eps * (field**2 * self.inverse).sum(-1).sqrt()

    def quadratic(self, field: Float[Tensor, "*rows keys"]) -> Float[Tensor, "*rows"]:
        """What sum_j f_j E[|d|^2 | x_j] is at most: eps^2 max_j f_j / m_j."""
        return self.eps * self.eps * certain(torch.where(self.inverse > 0, field * self.inverse, 0.0)).amax(-1)


def least_masses(measure: TokenMeasure, context: float) -> Float[Tensor, "*batch n"]:
    """What a piece of each atom weighs at least: 1 / context, or all of an atom too light to make two of these."""
    least = (1 - SLACK) / context
    return torch.where(measure.masses < 2 * least, measure.masses, least)


def can_split(measure: TokenMeasure, context: float) -> Bool[Tensor, "*batch"]:
    """Whether some atom can be written as two pieces of at least 1 / context each."""
    return (measure.present & (measure.masses >= 2 * (1 - SLACK) / context)).any(-1)


@dataclass(frozen=True, eq=False)
class Centred:
    """A block of rows of one sample, about the exact means under the exact attention of x_i.

    `value` and `slope` are distances of u_j and of y_ij from their means, `value_deviation` and `slope_deviation` the
    largest standard deviations; P_ij is between `floor` and `ceiling`. Unseen keys have none of these.
    """

    log_p: Float[Tensor, "heads rows keys"]
    logit_error: Float[Tensor, "heads"]
    seen: Bool[Tensor, "1 rows keys"]
    floor: Float[Tensor, "heads rows keys"]
    ceiling: Float[Tensor, "heads rows keys"]
    value: Float[Tensor, "heads rows keys"]
    slope: Float[Tensor, "heads rows keys"]
    value_deviation: Float[Tensor, "heads rows"]
    slope_deviation: Float[Tensor, "heads rows"]
    key_slope: Float[Tensor, "heads rows keys"]

    @classmethod
    def of(cls, block: RowBlock) -> Centred:
        """From what is known under weights as computed: a mean under exact ones is off by the part that they err."""
        error, seen, log_p = block.logit_error[0], block.seen[0], block.log_p[0]
        excess = weight_excess(error, log_p.shape[-1])
        grown = (1 + excess).sqrt()[:, None]

        def distances(found: Float[Tensor, "heads rows keys"]) -> Float[Tensor, "heads rows keys"]:
            found = torch.where(seen, found, 0.0)
            off = excess.clamp_max(1.0)[:, None, None] * found.amax(-1, keepdim=True)
            return torch.where(seen, found + off, 0.0)

        floor, ceiling, _ = softmax_interval(log_p, error[:, None, None].expand(log_p.shape), seen)
        return cls(
            log_p=log_p,
            logit_error=error,
            seen=seen,
            floor=floor,
            ceiling=torch.where(seen, ceiling.clamp_min(SEEN), 0.0),
            value=distances(block.value_distance[0]),
            slope=distances(block.slope_distance[0]),
            value_deviation=block.value_deviation[0] * grown,
            slope_deviation=block.slope_deviation[0] * grown,
            key_slope=torch.where(seen, block.key_slope[0], 0.0),
        )

    def hull(self, norms: HeadNorms, pieces: Pieces) -> tuple[Tensor, Tensor]:
        """How far values and slopes of pieces can be from the means, for each head and row: no deviation is larger."""
        size, bend = norms.value[:, None, None], norms.interaction[:, None, None]
        value = torch.where(self.seen, self.value + size * pieces.reach, 0.0).amax(-1)
        slope = torch.where(self.seen, self.slope + bend * pieces.reach, 0.0).amax(-1)
        return value, slope


@dataclass(frozen=True, eq=False)
class Drawn:
    """Over all queries within some distance of x_i: attention, slopes of the logits, and what moved pieces draw.

    `drift` bounds |P_j(z) - P_ij|. With Z the sum of weights: e^-fall <= Z(nu) / Z(mu), and |Z(mu) / Z(nu) - 1| is at
    most `excess`; `first` and `second` are (e^T - 1) / T and (e^T - 1 - T) / T^2; `motion` is (E |d|^2)^{1/2} under the
    attention to nu.
    """

    ceiling: Float[Tensor, "heads rows keys"]
    drift: Float[Tensor, "heads rows keys"]
    slope: Float[Tensor, "heads rows keys"]
    first: Float[Tensor, "heads rows keys"]
    second: Float[Tensor, "heads rows keys"]
    fall: Float[Tensor, "heads rows"]
    excess: Float[Tensor, "heads rows"]
    motion: Float[Tensor, "heads rows"]

    @property
    def growth(self) -> Float[Tensor, "heads rows"]:
        """Z(mu) / Z(nu) at most."""
        return self.fall.exp()

    def shifted(self, pieces: Pieces, weights: Float[Tensor, "heads rows keys"]) -> Float[Tensor, "heads rows"]:
        """sum_j w_j |Q_j - P_ij| at most, Q_j what the pieces of atom j draw together, w >= 0."""
        moved = pieces.linear(self.ceiling * self.slope * weights)
        moved = moved + pieces.quadratic(self.ceiling * self.slope**2 * self.second * weights)
        scaled = self.excess * (self.ceiling * weights).sum(-1)
        total = (self.drift * weights).sum(-1) + self.growth * moved + scaled
        return torch.minimum(certain(total), 2 * weights.amax(-1))


def drawn(rows: Centred, norms: HeadNorms, pieces: Pieces, distance: Float[Tensor, "rows"]) -> Drawn:
    """The upper values over all queries within a distance of each row's token."""
    far = distance[:, None]
    floor, ceiling = _attention(rows, far)
    slope = torch.where(rows.seen, rows.key_slope + norms.interaction[:, None, None] * far, 0.0)
    farthest = slope * pieces.reach
    top = farthest.exp()
    first, second = top * psi_1(farthest), top * psi_2(farthest)
    fall = torch.minimum(pieces.linear(ceiling * slope), farthest.amax(-1))
    rise = fall + pieces.quadratic(ceiling * slope**2 * second)
    motion = (fall / 2).exp() * pieces.quadratic(ceiling * top).sqrt()
    return Drawn(
        ceiling=ceiling,
        drift=torch.maximum(ceiling - rows.floor, rows.ceiling - floor).clamp_min(0.0),
        slope=slope,
        first=first,
        second=second,
        fall=fall,
        excess=torch.maximum(torch.expm1(fall), torch.where(rise.isinf(), 1.0, rise / (1 + rise))),
        motion=torch.minimum(certain(motion), pieces.reach.max()),
    )


def _attention(rows: Centred, far: Float[Tensor, "rows 1"]) -> tuple[Tensor, Tensor]:
    """P_j(z) from below and above, by interval softmax and by Jensen's inequality.

    P_j(z) = P_ij e^{l_j} / sum_k P_ik e^{l_k}, |l_j| at most the way times the distance of y_ij, sum_k P_ik l_k = 0.
    """
    shift = far * rows.slope
    floor, ceiling, _ = softmax_interval(rows.log_p, shift + rows.logit_error[:, None, None], rows.seen)
    rise = shift.exp()
    bent = (rows.ceiling * shift**2 * rise * psi_2(shift)).sum(-1, keepdim=True)
    lowered = (rows.floor / (rise * (1 + bent) * MARGIN)).nan_to_num(nan=0.0)
    raised = rows.ceiling * rise * MARGIN
    ceiling = torch.where(rows.seen, torch.minimum(ceiling, raised).clamp_min(SEEN), 0.0)
    return torch.maximum(floor, lowered), ceiling


def certain(upper: Tensor) -> Tensor:
    """Upper values with infinity where overflow left no number (zero times infinity)."""
    return upper.nan_to_num(nan=torch.inf, posinf=torch.inf)

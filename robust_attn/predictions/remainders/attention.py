"""The softmax over the last axis, on logits that are centred under its clean weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from robust_attn.predictions.look import Look, Part, Sizes
from robust_attn.predictions.remainders.ellipsoids import together
from robust_attn.predictions.tape import Operation

SMALLEST_WEIGHT = 1e-300
"""What stands for a weight that is smaller, or that is rounded to zero: its logit may still rise by hundreds."""


@final
@dataclass(frozen=True, eq=False)
class Softmax(Operation):
    """P_ij = softmax_j(l_ij) over the visible j. Deviations of l have mean zero under the clean P (CentreLogits)."""

    visible: Tensor | None = None

    def value(self, *at: Tensor) -> Tensor:
        """Attention weights."""
        logits = at[0] if self.visible is None else at[0].masked_fill(~self.visible, -torch.inf)
        return torch.softmax(logits, dim=-1)

    def first(self, at: Sequence[Tensor], along: Sequence[Tensor]) -> Tensor:
        """P (u - E u)."""
        weights = self.value(*at).to(along[0])
        return weights * _centred(weights, along[0])

    def at_most(self, *at: Tensor) -> Tensor:
        """Upper values of the weights: what is visible has one, however small a weight is rounded to zero."""
        weights = self.value(*at)
        floored = weights.clamp_min(SMALLEST_WEIGHT)
        return floored if self.visible is None else torch.where(self.visible, floored, 0.0)

    def interval(self, low: Sequence[Tensor], high: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """One logit up and the others down, and the other way round."""
        middle, half = (low[0] + high[0]) / 2, (high[0] - low[0]) / 2
        upper = interval_weights(self.at_most(middle), half)
        return self._floor(middle, half), upper

    def _floor(self, logits: Tensor, half: Tensor) -> Tensor:
        """Lower values of the weights: one logit down, and all others up from upper values of their weights."""
        own, others = self.value(logits) * torch.exp(-half), self.at_most(logits) * torch.exp(half)
        rest = (others.sum(-1, keepdim=True) - others).clamp(min=0)
        rest = torch.maximum(rest, others.sum(-1, keepdim=True) * 2.0**-50)
        return torch.where(own > 0, own / (own + rest), 0.0)

    def second(self, at: Sequence[Tensor], along: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:
        """P (u v - E[u v]), u and v centred."""
        weights = self.value(*at).to(along[0])
        product = _centred(weights, along[0]) * _centred(weights, other[0])
        return weights * _centred(weights, product)

    def third(
        self, at: Sequence[Tensor], along: Sequence[Tensor], other: Sequence[Tensor], more: Sequence[Tensor]
    ) -> Tensor | None:
        """P (a b c - a E[b c] - b E[a c] - c E[a b] - E[a b c]), all centred."""
        weights = self.value(*at).to(along[0])
        a, b, c = (_centred(weights, each[0]) for each in (along, other, more))

        def mean(x: Tensor) -> Tensor:
            return (weights * x).sum(-1, keepdim=True)

        return weights * (a * b * c - a * mean(b * c) - b * mean(a * c) - c * mean(a * b) - mean(a * b * c))

    def fourth(self, at: Sequence[Tensor], *along: Sequence[Tensor]) -> Tensor | None:
        """P times abcd - E abcd, minus ab E cd (six ways) and a E bcd (four), plus 2 E ab E cd (three)."""
        weights = self.value(*at).to(along[0][0])
        a, b, c, d = (_centred(weights, each[0]) for each in along)

        def mean(x: Tensor) -> Tensor:
            return (weights * x).sum(-1, keepdim=True)

        whole = _centred(weights, a * b * c * d)
        for p, q, r, s in ((a, b, c, d), (a, c, b, d), (a, d, b, c)):
            left, right = mean(p * q), mean(r * s)
            whole = whole - p * q * right - r * s * left + 2 * left * right
        for p, rest in ((a, b * c * d), (b, a * c * d), (c, a * b * d), (d, a * b * c)):
            whole = whole - p * mean(rest)
        return weights * whole

    def row_weights(self, at: Sequence[Tensor]) -> Tensor | None:
        """Norms of rows are standard deviations under P."""
        return self.value(*at).sqrt()

    def powers(self, at: Sequence[Tensor], look: Look) -> Tensor | None:
        """P (y^3 - 3 y V - E y^3) / 6 and P (y^4 - 6 y^2 V - 4 y E y^3 + 6 V^2 - E y^4) / 24, V = E y^2.

        Entry by entry and, for means without y_j, by rows.
        """
        weights, y, spread = self.at_most(*at), look.ranges(0).y, look.rows().y[..., None]
        fourth, sixth = _moment(weights, y, 4), _moment(weights, y, 6)
        entries = (y.square() + 3 * spread.square()) / 6 + (y**3 + 6 * y * spread.square() + 4 * fourth * spread) / 24
        rows = weights * (fourth / 6 + (6 * spread**3 + sixth) / 24)
        root = (weights * entries).sqrt()
        common = rows.sqrt() * look.norm(0, (weights * rows.sum(-1, keepdim=True)).sqrt(), "y")
        return together(root * look.norm(0, root, "y"), common)

    def remainder(self, at: Sequence[Tensor], look: Look) -> Tensor:
        """Bounds by f_ij |x_ij|, and by f_ij times the root of the mean square of row i under P or U."""
        weights = self.at_most(*at)
        sizes, spread = look.ranges(0), Sizes(*(each[..., None] for each in look.rows()))

        def by_entries(f: Tensor, part: Part) -> Tensor:
            return f.sqrt() * look.norm(0, f.sqrt(), part)

        def by_rows(f: Tensor, part: Part, mean: Tensor) -> Tensor:
            return f.sqrt() * look.norm(0, (mean * f.sum(-1, keepdim=True)).sqrt(), part)

        axes = [
            axis
            for part, entries, rows in _centre(weights, sizes, spread)
            for axis in (by_entries(weights * entries, part), by_rows(weights * rows, part, weights))
        ]
        upper, entries, rows = _segment(weights, sizes, spread)
        return together(*axes, by_entries(upper * entries, "d"), by_rows(upper * rows, "d", upper))


def _centre(weights: Tensor, sizes: Sizes, spread: Sizes) -> list[tuple[Part, Tensor, Tensor]]:
    """By part x of the deviation, factors of |x_ij| and of the deviation of row i of x under P, both to be times P.

    D^2 P[y, c]; D^2 P[s, k] and D^3 P[y, y, k] / 2; D^2 P[h, h] / 2; D^3 P with (d, e, e) / 2 and D^4 P with
    (d, d, d, e) / 6, which are at least what those derivatives have with e twice, or once.
    """
    y, e, d = sizes.y, sizes.e, sizes.d
    fourth, sixth = _moment(weights, d, 4), _moment(weights, d, 6)
    mixed = (weights * (d * e).square()).sum(-1, keepdim=True).sqrt()
    on_k = sizes.s + (y.square() + spread.y.square()) / 2
    rows_k = spread.s + y * spread.y + _moment(weights, y, 4) / 2
    on_e = (d * e + spread.d * spread.e) / 2 + (d**3 + 3 * d * spread.d.square() + fourth * spread.d) / 6
    rows_e = (d * spread.e + e * spread.d + mixed) / 2
    rows_e = rows_e + (3 * d.square() * spread.d + 3 * d * fourth + 6 * spread.d**3 + sixth) / 6
    on_h, rows_h = sizes.h / 2, (spread.h / 2).expand_as(y)
    return [("c", y, spread.y.expand_as(y)), ("k", on_k, rows_k), ("h", on_h, rows_h), ("e", on_e, rows_e)]


def _segment(weights: Tensor, sizes: Sizes, spread: Sizes) -> tuple[Tensor, Tensor, Tensor]:
    """U, and factors of |d_ij| and of (sum_j U d_ij^2)^{1/2} that bound the fifth derivative over 120, U left out.

    With x = d - E_s d it is P^s (x^5 - 10 x^3 V - 10 x^2 M_3 + 30 x V^2 - 5 x M_4 + 20 V M_3 - M_5), where P^s <= U,
    V = Var_s d <= sum U d^2, 0 <= E_s d <= sup V, and M_k = E_s x^k has |M_k| <= (E_s x^{2k - 2})^{1/2} V^{1/2}.
    """
    upper = centred_weights(weights, sizes.d)
    growth = torch.where(weights > 0, upper / torch.where(weights > 0, weights, 1.0), 1.0)
    root = _mean_square(weights, growth, sizes.d, spread.d).sqrt()
    reach = torch.where(weights > 0, sizes.d + root.square(), 0.0)
    fourth, sixth, eighth = (_moment(upper, reach, power) for power in (4, 6, 8))
    rows = (reach**4 + 10 * reach**3 + 30 * reach * root.square()) * root + 10 * reach.square() * fourth
    rows = rows + 5 * reach * sixth + 20 * root.square() * fourth + eighth
    return upper, reach**4 / 120, rows / 120


def _moment(weights: Tensor, sizes: Tensor, power: int) -> Tensor:
    """(sum_j w_j size_j^power)^{1/2}, row by row."""
    return (weights * sizes**power).sum(-1, keepdim=True).sqrt()


def _mean_square(weights: Tensor, growth: Tensor, sizes: Tensor, spread: Tensor) -> Tensor:
    """Per row, at least sum_j P_j growth_j d_j^2 where |d_j| <= size_j and sum_j P_j d_j^2 <= spread^2.

    For any t it is at most t spread^2 + sum_j P_j (growth_j - t)_+ size_j^2; t is the best of the growths. So a logit
    of little weight may go far, and the others of its row do not count more for it.
    """
    growth, order = growth.sort(-1, descending=True)
    shares = (weights * sizes.square()).gather(-1, order)
    beyond = ((shares * growth).cumsum(-1) - growth * shares.cumsum(-1)).clamp(min=0)
    return (growth * spread.square() + beyond).amin(-1, keepdim=True)


def interval_weights(weights: Tensor, reach: Tensor) -> Tensor:
    """U >= P^s for logits within `reach` of the clean ones: one of them up, all others down."""
    visible = weights > 0
    raised = torch.where(visible, weights * torch.exp(reach), 0.0)
    lowered = torch.where(visible, weights * torch.exp(-reach), 0.0)
    others = (lowered.sum(-1, keepdim=True) - lowered).clamp(min=0)
    return torch.where(visible, raised / (raised + others), 0.0)


def centred_weights(weights: Tensor, reach: Tensor) -> Tensor:
    """U >= P^s on the segment to logits within `reach` whose deviation d has mean zero under P.

    P^s_j = P_j e^{s d_j} / E e^{s d}, and E e^{s d} >= e^{s E d} = 1, so P_j e^{reach_j} is enough.
    """
    return torch.minimum(interval_weights(weights, reach), weights * torch.exp(reach))


def _centred(weights: Tensor, tangent: Tensor) -> Tensor:
    return tangent - (weights * tangent).sum(-1, keepdim=True)

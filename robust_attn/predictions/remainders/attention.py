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

    def interval(self, low: Sequence[Tensor], high: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """One logit up and the others down, and the other way round."""
        middle, half = self.value((low[0] + high[0]) / 2), (high[0] - low[0]) / 2
        return interval_weights(middle, -half)[0], interval_weights(middle, half)[0]

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

    def row_weights(self, at: Sequence[Tensor]) -> Tensor | None:
        """Norms of rows are standard deviations under P."""
        return self.value(*at).sqrt()

    def cubic(self, at: Sequence[Tensor], look: Look) -> Tensor | None:
        """P (y^3 - 3 y E y^2 - E y^3) / 6, entry by entry and, for the last mean, by rows."""
        weights, ranges, spread = self.value(*at), look.ranges(0).y, look.rows().y[..., None]
        entries = (weights * (ranges.square() + 3 * spread.square()) / 6).sqrt()
        rows = weights * _moment(weights, ranges, 4) / 6
        common = rows.sqrt() * look.norm(0, (weights * rows.sum(-1, keepdim=True)).sqrt(), "y")
        return together(entries * look.norm(0, entries, "y"), common)

    def remainder(self, at: Sequence[Tensor], look: Look) -> Tensor:
        """At the centre: P (y c - E[y c]), the same with e, e halved, and what D^3 P has with e in one place at least.

        On the segment, with x = d - E_s d, the fourth derivative P^s (x^4 - 6 x^2 V - 4 x E_s x^3 + 6 V^2 - E_s x^4),
        where P^s <= U, V = Var_s d <= sum U d^2 and 0 <= E_s d <= sup V; E |x|^3 <= (E x^4)^{1/2} V^{1/2} and alike.
        """
        weights = self.value(*at)
        sizes, spread = look.ranges(0), Sizes(*(each[..., None] for each in look.rows()))
        upper, growth = interval_weights(weights, sizes.d)
        root = torch.minimum(growth.sqrt() * spread.d, _moment(upper, sizes.d, 2))  # at least (sum U d^2)^{1/2}
        reach = torch.where(weights > 0, sizes.d + root.square(), 0.0)
        fourth, sixth = _moment(upper, reach, 4), _moment(upper, reach, 6)
        twice = (sizes.d.square() + spread.d.square(), 2 * sizes.d * spread.d + _moment(weights, sizes.d, 4))
        common = (reach**3 + 6 * reach.square() + 6 * root.square()) * root + 4 * reach * fourth + sixth
        # Bounds by f_ij |x_ij|, and by f_ij times the root of the mean square of row i under P or U.
        centre: tuple[tuple[Tensor, Tensor, Part], ...]
        centre = (weights * sizes.y, weights * spread.y, "c"), (
            weights * (sizes.e + twice[0]) / 2, weights * (spread.e + twice[1]) / 2, "e")  # fmt: skip

        def by_entries(f: Tensor, part: Part) -> Tensor:
            return f.sqrt() * look.norm(0, f.sqrt(), part)

        def by_rows(f: Tensor, part: Part, mean: Tensor) -> Tensor:
            return f.sqrt() * look.norm(0, (mean * f.sum(-1, keepdim=True)).sqrt(), part)

        axes = [each for f, g, part in centre for each in (by_entries(f, part), by_rows(g, part, weights))]
        return together(*axes, by_entries(upper * reach**3 / 24, "d"), by_rows(upper * common / 24, "d", upper))


def _moment(weights: Tensor, sizes: Tensor, power: int) -> Tensor:
    """(sum_j w_j size_j^power)^{1/2}, row by row."""
    return (weights * sizes**power).sum(-1, keepdim=True).sqrt()


def interval_weights(weights: Tensor, reach: Tensor) -> tuple[Tensor, Tensor]:
    """U >= P^s for logits within `reach` of the clean ones, and per row the largest U / P (at least 1)."""
    visible = weights > 0
    raised = torch.where(visible, weights * torch.exp(reach), 0.0)
    lowered = torch.where(visible, weights * torch.exp(-reach), 0.0)
    others = (lowered.sum(-1, keepdim=True) - lowered).clamp(min=0)
    upper = raised / (raised + others)
    upper = torch.where(visible, upper, 0.0)
    ratio = torch.where(visible, upper / torch.where(visible, weights, 1.0), 1.0)
    return upper, ratio.amax(-1, keepdim=True).clamp(min=1)


def _centred(weights: Tensor, tangent: Tensor) -> Tensor:
    return tangent - (weights * tangent).sum(-1, keepdim=True)

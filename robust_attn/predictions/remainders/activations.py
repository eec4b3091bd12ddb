"""Scalar functions applied entry by entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from robust_attn.predictions.look import Look, Part
from robust_attn.predictions.remainders.ellipsoids import together
from robust_attn.predictions.scalar_functions import ScalarFunction
from robust_attn.predictions.tape import Operation


@final
@dataclass(frozen=True, eq=False)
class Elementwise(Operation):
    """phi(u)."""

    function: ScalarFunction

    def value(self, *at: Tensor) -> Tensor:
        """phi(u)."""
        return self.function.value(at[0])

    def first(self, at: Sequence[Tensor], along: Sequence[Tensor]) -> Tensor:
        """phi' t."""
        return self.function.first(at[0]).to(along[0]) * along[0]

    def interval(self, low: Sequence[Tensor], high: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Values at the ends, and the least value where the function is not monotone in between."""
        ends = self.function.value(low[0]), self.function.value(high[0])
        least, most = torch.minimum(*ends), torch.maximum(*ends)
        falling, rising = self.function.first(low[0]) < 0, self.function.first(high[0]) > 0
        turning = falling & rising & (self.function.least > -torch.inf)
        return torch.where(turning, least.clamp(max=self.function.least), least), most

    def second(self, at: Sequence[Tensor], along: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:
        """phi'' t t'."""
        return self.function.second(at[0]).to(along[0]) * along[0] * other[0]

    def third(
        self, at: Sequence[Tensor], along: Sequence[Tensor], other: Sequence[Tensor], more: Sequence[Tensor]
    ) -> Tensor | None:
        """The third derivative times the three."""
        return self.function.third(at[0]).to(along[0]) * along[0] * other[0] * more[0]

    def fourth(self, at: Sequence[Tensor], *along: Sequence[Tensor]) -> Tensor | None:
        """The fourth derivative times the four."""
        slope = self.function.fourth(at[0])
        return None if slope is None else slope.to(along[0][0]) * along[0][0] * along[1][0] * along[2][0] * along[3][0]

    def powers(self, at: Sequence[Tensor], look: Look) -> Tensor | None:
        """|R_a| <= f_a |y_a| with f from the range of y."""
        y, fourth = look.ranges(0).y, self.function.fourth(at[0])
        slope = self.function.third(at[0]).abs() * y.square() / 6
        root = (slope if fourth is None else slope + fourth.abs() * y**3 / 24).sqrt()
        return root * look.norm(0, root, "y")

    def remainder(self, at: Sequence[Tensor], look: Look) -> Tensor:
        """From |R_a| <= f_a |x_a| follows sum R_a^2 / f_a <= sum f_a x_a^2: half axes f^{1/2} |f^{1/2} x|.

        |e| <= |s| + |h| and |d| <= |y| + |s| + |h| leave one norm for each part.
        """
        c, k, h, e, d = self.function.slopes(at[0], look.ranges(0))
        slopes: tuple[tuple[Tensor, Part], ...] = (c, "c"), (k, "k"), (h + e + d, "h"), (e + d, "s"), (d, "y")
        return together(*(slope.sqrt() * look.norm(0, slope.sqrt(), part) for slope, part in slopes))

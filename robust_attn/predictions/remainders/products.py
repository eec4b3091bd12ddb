"""Products of two deviations: what is left is y c' + c y' + s k' + k s' + h h', exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from robust_attn.predictions.look import Look, Part
from robust_attn.predictions.remainders.ellipsoids import lifted, together
from robust_attn.predictions.tape import Operation


class Bilinear(Operation):
    """f = B(p, q); subclasses give B on batched tensors."""

    def product(self, p: Tensor, q: Tensor) -> Tensor:
        """B(p, q)."""
        raise NotImplementedError

    def value(self, *at: Tensor) -> Tensor:
        """B(p, q)."""
        return self.product(at[0], at[1])

    def first(self, at: Sequence[Tensor], along: Sequence[Tensor]) -> Tensor:
        """B(u, q) + B(p, v)."""
        return self.product(along[0], at[1].to(along[1])) + self.product(at[0].to(along[0]), along[1])

    def interval(self, low: Sequence[Tensor], high: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """B(m, m') and, around it, |B|(|m|, h') + |B|(h, |m'|) + |B|(h, h'), middles m and half widths h."""
        p, q = ((x + y) / 2 for x, y in zip(low, high, strict=True))
        h, k = ((y - x) / 2 for x, y in zip(low, high, strict=True))
        middle = self.product(p, q)
        spread = (self.product(p.abs() + h, q.abs() + k) - self.product(p.abs(), q.abs())).abs()
        return middle - spread, middle + spread

    def second(self, at: Sequence[Tensor], along: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:  # noqa: ARG002
        """B(u, v') + B(u', v)."""
        return self.product(along[0], other[1]) + self.product(other[0], along[1])


PARTS: tuple[tuple[Part, Part], ...] = (("y", "c"), ("c", "y"), ("s", "k"), ("k", "s"), ("h", "h"))
"""Which part of the first factor meets which of the second."""


@final
@dataclass(frozen=True, eq=False)
class Logits(Bilinear):
    """scale <q_i, k_j> for every head."""

    scale: float

    def product(self, p: Tensor, q: Tensor) -> Tensor:
        """scale q k^T."""
        return self.scale * (p @ q.transpose(-1, -2))

    def remainder(self, at: Sequence[Tensor], look: Look) -> Tensor:  # noqa: ARG002
        """|R_ij| <= scale |p_i| |q_j|, so sum_ij R_ij^2 / (a_i b_j)^2 <= scale^2 |p / a|^2 |q / b|^2."""
        shapes = look.shape(0), look.shape(1)

        def pair(first: Part, second: Part) -> Tensor:
            parts = shapes[0].of(first), shapes[1].of(second)
            a, b = (lifted(x.norm(dim=-1, keepdim=True)).sqrt() for x in parts)
            size = look.norm(0, 1 / a, first) * look.norm(1, 1 / b, second)
            return abs(self.scale) * size * a * b.transpose(-1, -2)

        return together(*(pair(*parts) for parts in PARTS))


@final
@dataclass(frozen=True, eq=False)
class Mix(Bilinear):
    """sum_j P_ij v_j for every head."""

    def product(self, p: Tensor, q: Tensor) -> Tensor:
        """P v."""
        return p @ q

    def remainder(self, at: Sequence[Tensor], look: Look) -> Tensor:  # noqa: ARG002
        """Cauchy-Schwarz over j with weights w_j, then over rows i and coordinates c:

        sum_ic (sum_j p_ij v_jc)^2 / (a_i b_c)^2 <= sum_ij (p_ij w_j / a_i)^2 sum_jc (v_jc / (w_j b_c))^2.
        """
        shapes = look.shape(0), look.shape(1)

        def pair(first: Part, second: Part) -> Tensor:
            p, v = shapes[0].of(first), shapes[1].of(second)
            w = lifted(v.norm(dim=-1, keepdim=True)).sqrt()
            a = lifted((p.square() @ w.square()).sqrt()).sqrt()
            b = lifted((v / w).square().sum(-2, keepdim=True).sqrt()).sqrt()
            size = look.norm(0, w.transpose(-1, -2) / a, first) * look.norm(1, 1 / (w * b), second)
            return size * a * b

        return together(*(pair(*parts) for parts in PARTS))


@final
@dataclass(frozen=True, eq=False)
class Scale(Bilinear):
    """x_ic t_i: rows of x times one number each."""

    def product(self, p: Tensor, q: Tensor) -> Tensor:
        """x t."""
        return p * q

    def remainder(self, at: Sequence[Tensor], look: Look) -> Tensor:  # noqa: ARG002
        """With ranges f of the numbers, |R_ic| <= f_i |x_ic| has half axes w |(f / w) x| for any w > 0."""
        rows, numbers = look.shape(0), look.ranges(1)

        def slope(first: Part, second: Part) -> Tensor:
            f = numbers.of(second)
            w = lifted(f * rows.of(first)).sqrt()
            return w * look.norm(0, f / w, first)

        return together(*(slope(*parts) for parts in PARTS))


@final
@dataclass(frozen=True, eq=False)
class Gate(Bilinear):
    """p q, entry by entry."""

    def product(self, p: Tensor, q: Tensor) -> Tensor:
        """p q."""
        return p * q

    def remainder(self, at: Sequence[Tensor], look: Look) -> Tensor:  # noqa: ARG002
        """With ranges f of the first factor, |R_a| <= f_a |x_a| has half axes f^{1/2} |f^{1/2} x|."""
        ranges = look.ranges(0)

        def slope(first: Part, second: Part) -> Tensor:
            root = ranges.of(first).sqrt()
            return root * look.norm(1, root, second)

        return together(*(slope(*parts) for parts in PARTS))


@final
@dataclass(frozen=True, eq=False)
class MeanSquare(Operation):
    """|x_i|^2 / width + epsilon, one number per row."""

    epsilon: float

    def value(self, *at: Tensor) -> Tensor:
        """Mean of squares, plus epsilon."""
        return at[0].square().mean(-1, keepdim=True) + self.epsilon

    def interval(self, low: Sequence[Tensor], high: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Squares of the ends, zero where an interval contains it."""
        inside = (low[0] <= 0) & (high[0] >= 0)
        least = torch.where(inside, 0.0, torch.minimum(low[0].square(), high[0].square()))
        most = torch.maximum(low[0].square(), high[0].square())
        return least.mean(-1, keepdim=True) + self.epsilon, most.mean(-1, keepdim=True) + self.epsilon

    def first(self, at: Sequence[Tensor], along: Sequence[Tensor]) -> Tensor:
        """2 <x, u> / width."""
        return 2 * (at[0].to(along[0]) * along[0]).mean(-1, keepdim=True)

    def second(self, at: Sequence[Tensor], along: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:  # noqa: ARG002
        """2 <u, u'> / width."""
        return 2 * (along[0] * other[0]).mean(-1, keepdim=True)

    def remainder(self, at: Sequence[Tensor], look: Look) -> Tensor:
        """R_i = (2 <y, c> + 2 <s, k> + <h, h>)_i / width, and sum_i (<p, q>_i / (a_i b_i))^2 <= |p / a|^2 |q / b|^2."""
        sizes, width = look.shape(0), at[0].shape[-1]

        def pair(first: Part, second: Part, times: int) -> Tensor:
            parts = sizes.of(first), sizes.of(second)
            a, b = (lifted(x.norm(dim=-1, keepdim=True)).sqrt() for x in parts)
            size = look.norm(0, 1 / a, first) * look.norm(0, 1 / b, second)
            return times * size * a * b / width

        return together(pair("y", "c", 2), pair("s", "k", 2), pair("h", "h", 1))

"""Scalar functions with their first three derivatives and bounds of the fourth on intervals."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, final

import torch
from torch import Tensor
from torch.nn import functional

from robust_attn.predictions.look import Sizes


class Slopes(NamedTuple):
    """A remainder's bound in terms of |c|, |k|, |h|, |e| and |d|, entry by entry."""

    on_c: Tensor
    on_k: Tensor
    on_h: Tensor
    on_e: Tensor
    on_d: Tensor


class ScalarFunction(ABC):
    """phi and its derivatives, entry by entry."""

    least: ClassVar[float] = -torch.inf
    """The least value of a function that falls and then rises, at some u < 0; minus infinity for monotone ones."""

    @abstractmethod
    def value(self, u: Tensor) -> Tensor:
        """phi(u)."""

    @abstractmethod
    def first(self, u: Tensor) -> Tensor:
        """phi'(u)."""

    @abstractmethod
    def second(self, u: Tensor) -> Tensor:
        """phi''(u)."""

    @abstractmethod
    def third(self, u: Tensor) -> Tensor:
        """phi'''(u)."""

    @abstractmethod
    def fourth_upper(self, u: Tensor, reach: Tensor) -> Tensor:
        """At least |phi''''| on [u - reach, u + reach]; infinite where phi leaves its domain."""

    def fourth(self, u: Tensor) -> Tensor | None:  # noqa: ARG002
        """The fourth derivative where `fifth_upper` is known; else None: the remainder then covers the fourth order."""
        return None

    def fifth_upper(self, u: Tensor, reach: Tensor) -> Tensor:
        """At least the absolute fifth derivative on [u - reach, u + reach], where `fourth` is given."""
        raise NotImplementedError

    def slopes(self, u: Tensor, sizes: Sizes) -> Slopes:
        """Bounds of phi(u + d) - phi - phi' d minus what is followed, by slopes, with d = y + e and e = s + h.

        d^2 / 2 = y^2 / 2 + y (e - c) + s^2 / 2 + s (h - k) + y c + s k + h^2 / 2,
        d^3 / 6 = y^3 / 6 + y^2 (s + h - k) / 2 + y^2 k / 2 + (y e / 2 + e^2 / 6) e,
        d^4 / 24 = y^4 / 24 + (4 y^3 + 6 y^2 e + 4 y e^2 + e^3) e / 24; what is left is Taylor's remainder.
        """
        bend, twice, thrice = self.second(u).abs(), self.third(u).abs(), self.fourth(u)
        y, e, d = sizes.y, sizes.e, sizes.d
        on_k, on_h = bend * sizes.s + twice * y.square() / 2, bend * sizes.h / 2
        on_e = twice * (y * e / 2 + e.square() / 6)
        if thrice is None:
            return Slopes(bend * y, on_k, on_h, on_e, self.fourth_upper(u, d) * d**3 / 24)
        on_e = on_e + thrice.abs() * (4 * y**3 + 6 * y.square() * e + 4 * y * e.square() + e**3) / 24
        return Slopes(bend * y, on_k, on_h, on_e, self.fifth_upper(u, d) * d**4 / 120)


@dataclass(frozen=True)
class _Smooth(ScalarFunction):
    """Fourth and fifth derivatives on intervals by their values at the centre, and global suprema of three orders."""

    fourth_supremum: float
    fifth_supremum: float
    sixth_supremum: float

    @abstractmethod
    def fourth(self, u: Tensor) -> Tensor:
        """phi''''(u)."""

    @abstractmethod
    def fifth(self, u: Tensor) -> Tensor:
        """phi'''''(u)."""

    def fourth_upper(self, u: Tensor, reach: Tensor) -> Tensor:
        """|value at the centre| + sup |fifth derivative| reach, or the supremum where that is less."""
        return (self.fourth(u).abs() + self.fifth_supremum * reach).clamp(max=self.fourth_supremum)

    def fifth_upper(self, u: Tensor, reach: Tensor) -> Tensor:
        """At least |phi'''''| on [u - reach, u + reach], likewise."""
        return (self.fifth(u).abs() + self.sixth_supremum * reach).clamp(max=self.fifth_supremum)


@final
@dataclass(frozen=True)
class Gelu(_Smooth):
    """u Phi(u), exactly: phi'' = (2 - u^2) n(u), phi''' = (u^3 - 4 u) n(u), n the normal density."""

    least: ClassVar[float] = -0.17
    fourth_supremum: float = 1.596
    fifth_supremum: float = 2.85
    sixth_supremum: float = 7.19

    def value(self, u: Tensor) -> Tensor:
        """u Phi(u)."""
        return functional.gelu(u)

    def first(self, u: Tensor) -> Tensor:
        """Phi(u) + u n(u)."""
        return torch.special.ndtr(u) + u * _density(u)

    def second(self, u: Tensor) -> Tensor:
        """(2 - u^2) n(u)."""
        return (2 - u.square()) * _density(u)

    def third(self, u: Tensor) -> Tensor:
        """(u^3 - 4 u) n(u)."""
        return (u.square() - 4) * u * _density(u)

    def fourth(self, u: Tensor) -> Tensor:
        """(-u^4 + 7 u^2 - 4) n(u)."""
        square = u.square()
        return ((7 - square) * square - 4) * _density(u)

    def fifth(self, u: Tensor) -> Tensor:
        """(u^5 - 11 u^3 + 18 u) n(u)."""
        square = u.square()
        return ((square - 11) * square + 18) * u * _density(u)


def _density(u: Tensor) -> Tensor:
    return torch.exp(-u.square() / 2) / math.sqrt(2 * math.pi)


@final
@dataclass(frozen=True)
class Tanh(_Smooth):
    """tanh."""

    fourth_supremum: float = 4.086
    fifth_supremum: float = 16.0
    sixth_supremum: float = 52.3

    def value(self, u: Tensor) -> Tensor:
        """t = tanh u."""
        return torch.tanh(u)

    def first(self, u: Tensor) -> Tensor:
        """1 - t^2."""
        return 1 - torch.tanh(u).square()

    def second(self, u: Tensor) -> Tensor:
        """-2 t (1 - t^2)."""
        t = torch.tanh(u)
        return -2 * t * (1 - t.square())

    def third(self, u: Tensor) -> Tensor:
        """-2 (1 - t^2) (1 - 3 t^2)."""
        square = torch.tanh(u).square()
        return -2 * (1 - square) * (1 - 3 * square)

    def fourth(self, u: Tensor) -> Tensor:
        """8 t (1 - t^2) (2 - 3 t^2)."""
        t = torch.tanh(u)
        square = t.square()
        return 8 * t * (1 - square) * (2 - 3 * square)

    def fifth(self, u: Tensor) -> Tensor:
        """8 (1 - t^2) (2 - 15 t^2 + 15 t^4)."""
        square = torch.tanh(u).square()
        return 8 * (1 - square) * (2 - 15 * square * (1 - square))


@final
@dataclass(frozen=True)
class TanhGelu(_Smooth):
    """u (1 + tanh w(u)) / 2, w = c (u + a u^3): the approximation that GPT-2 uses."""

    least: ClassVar[float] = -0.1701
    fourth_supremum: float = 1.61
    fifth_supremum: float = 2.87
    sixth_supremum: float = 7.35

    def value(self, u: Tensor) -> Tensor:
        """As torch computes it."""
        return functional.gelu(u, approximate="tanh")

    def first(self, u: Tensor) -> Tensor:
        """(1 + t) / 2 + u t' / 2."""
        t = _tanh_of_cubic(u)
        return (1 + t[0]) / 2 + u * t[1] / 2

    def second(self, u: Tensor) -> Tensor:
        """t' + u t'' / 2."""
        t = _tanh_of_cubic(u)
        return t[1] + u * t[2] / 2

    def third(self, u: Tensor) -> Tensor:
        """3 t'' / 2 + u t''' / 2."""
        t = _tanh_of_cubic(u)
        return 1.5 * t[2] + u * t[3] / 2

    def fourth(self, u: Tensor) -> Tensor:
        """2 t''' + u t'''' / 2."""
        t = _tanh_of_cubic(u)
        return 2 * t[3] + u * t[4] / 2

    def fifth(self, u: Tensor) -> Tensor:
        """5 t'''' / 2 + u t''''' / 2."""
        t = _tanh_of_cubic(u)
        return 2.5 * t[4] + u * t[5] / 2


def _tanh_of_cubic(u: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """tanh(w(u)) and its five derivatives (Faa di Bruno)."""
    c, a = math.sqrt(2 / math.pi), 0.044715
    w, w1, w2, w3 = c * (u + a * u**3), c * (1 + 3 * a * u.square()), 6 * c * a * u, 6 * c * a
    outer = Tanh()
    t1, t2, t3, t4, t5 = outer.first(w), outer.second(w), outer.third(w), outer.fourth(w), outer.fifth(w)
    third = t3 * w1**3 + 3 * t2 * w1 * w2 + t1 * w3
    fourth = t4 * w1**4 + 6 * t3 * w1.square() * w2 + t2 * (3 * w2.square() + 4 * w1 * w3)
    fifth = t5 * w1**5 + 10 * t4 * w1**3 * w2 + t3 * (15 * w1 * w2.square() + 10 * w1.square() * w3)
    return outer.value(w), t1 * w1, t2 * w1.square() + t1 * w2, third, fourth, fifth + 10 * t2 * w2 * w3


@final
@dataclass(frozen=True)
class Silu(_Smooth):
    """u / (1 + e^-u) = u (1 + tanh(u / 2)) / 2."""

    least: ClassVar[float] = -0.2785
    fourth_supremum: float = 0.51
    fifth_supremum: float = 0.66
    sixth_supremum: float = 1.5

    def value(self, u: Tensor) -> Tensor:
        """u sigmoid(u)."""
        return functional.silu(u)

    def first(self, u: Tensor) -> Tensor:
        """(1 + t) / 2 + u t' / 4, t at u / 2."""
        half = Tanh()
        return (1 + half.value(u / 2)) / 2 + u * half.first(u / 2) / 4

    def second(self, u: Tensor) -> Tensor:
        """t' / 2 + u t'' / 8."""
        half = Tanh()
        return half.first(u / 2) / 2 + u * half.second(u / 2) / 8

    def third(self, u: Tensor) -> Tensor:
        """3 t'' / 8 + u t''' / 16."""
        half = Tanh()
        return 3 * half.second(u / 2) / 8 + u * half.third(u / 2) / 16

    def fourth(self, u: Tensor) -> Tensor:
        """t''' / 4 + u t'''' / 32."""
        half = Tanh()
        return half.third(u / 2) / 4 + u * half.fourth(u / 2) / 32

    def fifth(self, u: Tensor) -> Tensor:
        """5 t'''' / 32 + u t''''' / 64."""
        half = Tanh()
        return 5 * half.fourth(u / 2) / 32 + u * half.fifth(u / 2) / 64


@final
@dataclass(frozen=True)
class Relu(ScalarFunction):
    """max(u, 0): no curvature, a remainder of max(0, |d| - |u|) where the sign can change."""

    def value(self, u: Tensor) -> Tensor:
        """max(u, 0)."""
        return torch.relu(u)

    def first(self, u: Tensor) -> Tensor:
        """1 where u > 0."""
        return (u > 0).to(u)

    def second(self, u: Tensor) -> Tensor:
        """Zero."""
        return torch.zeros_like(u)

    def third(self, u: Tensor) -> Tensor:
        """Zero."""
        return torch.zeros_like(u)

    def fourth_upper(self, u: Tensor, reach: Tensor) -> Tensor:
        """Infinite where the kink is within reach; `slopes` does not use it."""
        return torch.where(u.abs() > reach, 0.0, torch.inf)

    def slopes(self, u: Tensor, sizes: Sizes) -> Slopes:
        """|d| - |u| <= (1 - |u| / reach) |d| for |d| <= reach; at u = 0 the derivative is taken as 0."""
        share = (1 - u.abs() / sizes.d).clamp(min=0)
        zero = torch.zeros_like(u)
        return Slopes(zero, zero, zero, zero, torch.where(sizes.d > u.abs(), share, zero))


@final
@dataclass(frozen=True)
class InverseRoot(ScalarFunction):
    """u^{-1/2} for u > 0."""

    def value(self, u: Tensor) -> Tensor:
        """u^{-1/2}."""
        return u.rsqrt()

    def first(self, u: Tensor) -> Tensor:
        """-u^{-3/2} / 2."""
        return -(u**-1.5) / 2

    def second(self, u: Tensor) -> Tensor:
        """3 u^{-5/2} / 4."""
        return 0.75 * u**-2.5

    def third(self, u: Tensor) -> Tensor:
        """-15 u^{-7/2} / 8."""
        return -1.875 * u**-3.5

    def fourth_upper(self, u: Tensor, reach: Tensor) -> Tensor:
        """105/16 (u - reach)^{-9/2}: the fourth derivative decreases."""
        least = u - reach
        return torch.where(least > 0, 6.5625 * least.clamp(min=torch.finfo(u.dtype).tiny) ** -4.5, torch.inf)

    def fourth(self, u: Tensor) -> Tensor:
        """105 u^{-9/2} / 16."""
        return 6.5625 * u**-4.5

    def fifth_upper(self, u: Tensor, reach: Tensor) -> Tensor:
        """945/32 (u - reach)^{-11/2}: it decreases in absolute value."""
        least = u - reach
        return torch.where(least > 0, 29.53125 * least.clamp(min=torch.finfo(u.dtype).tiny) ** -5.5, torch.inf)

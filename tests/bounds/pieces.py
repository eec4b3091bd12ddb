"""Splits into pieces that are not light, and what the bounds on them say with the exact local constant."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.operator import ScaledJacobian
from robust_attn.bounds.bound import Bound
from robust_attn.bounds.context import SplitConstant, context_bounds
from robust_attn.bounds.rows import RowBlock, row_blocks
from robust_attn.bounds.splitting import without_padding
from robust_attn.budget import Wasserstein
from robust_attn.spectral.lipschitz import QueryPart
from robust_attn.spectral.norms import head_norms
from tests.cases import one_sample

FAR = 1e6
"""A support that limits nothing."""


def exact_split_constant(layer: AttentionLayer, sample: TokenMeasure) -> float:
    """max(|D_X f|, max_i |Q_i|) in L2 of the measure, decomposed."""
    jacobian = layer.linearize(sample)
    parts = (ScaledJacobian(part, sample.masses).dense() for part in (jacobian, QueryPart(jacobian)))
    return max(float(torch.linalg.matrix_norm(part, 2)) for part in parts)


def context_promise(
    layer: AttentionLayer,
    measure: TokenMeasure,
    eps: float,
    context: float,
    *,
    support: float = math.inf,
    constant: float | None = None,
) -> tuple[Bound, ...]:
    """The bounds of one measure; its constant is the exact one with a margin, unless another is given."""
    sample = without_padding(measure)
    if constant is None:
        constant = exact_split_constant(layer, sample) * (1 + 1e-9) if not layer.normed else math.nan
    known = SplitConstant(constant, 1e-9, constant)
    return context_bounds(layer, head_norms(layer), sample, Wasserstein(eps), known, context=context, support=support)


def random_pieces(measure: TokenMeasure, context: float, g: torch.Generator, *, count: int = 4) -> TokenMeasure:
    """Up to `count` pieces cut from random atoms, each of 1 / context or a little more, and never leaving less."""
    points, masses, positions = list(measure.points), measure.masses.tolist(), measure.positions.tolist()
    for _ in range(count):
        source = int(torch.randint(measure.length, (1,), generator=g))
        mass = min((1 + float(torch.rand(1, generator=g)) ** 4) / context, masses[source] / 2)
        if mass * context >= 1 and float(torch.rand(1, generator=g)) < 0.9:
            masses[source] -= mass
            points.append(measure.points[source])
            masses.append(mass)
            positions.append(positions[source])
    return TokenMeasure(torch.stack(points), torch.tensor(masses).double(), torch.tensor(positions))


def places_of(base: TokenMeasure, tokens: int, spread: float, g: torch.Generator, *, still: bool) -> Tensor:
    """Where atoms are sent: pieces anywhere within the spread, tokens too unless they stay."""
    moving = torch.ones(base.length, 1).double()
    moving[:tokens] = 0.0 if still and base.length > tokens else 1.0
    return base.points + spread * moving * torch.randn(base.points.shape, generator=g, dtype=torch.float64)


def block_of(layer: AttentionLayer, sample: TokenMeasure) -> RowBlock:
    """All rows of one sample."""
    (block,) = row_blocks(layer, one_sample(sample))
    return block


def pieces_moved(
    sample: TokenMeasure, base: TokenMeasure, moved: Tensor, slope: Tensor, share: Tensor
) -> tuple[float, Tensor, float]:
    """Z(nu) / Z(mu) at a query, what the pieces of each atom draw, and (E |d|^2)^{1/2} under that, one head.

    `share` is the attention to the atoms of `sample`, of which those of `base` are pieces.
    """
    home = torch.tensor([int((sample.points - point).norm(dim=-1).argmin()) for point in base.points])
    weights = share[home] * base.masses / sample.masses[home] * ((moved - base.points) @ slope).exp()
    ratio = float(weights.sum())
    drawn = torch.zeros_like(share).index_add(0, home, weights / ratio)
    squared = float((weights / ratio * (moved - base.points).square().sum(-1)).sum())
    return ratio, drawn, math.sqrt(squared)


@dataclass(frozen=True)
class ByHand:
    """x = (-1, 1), equal masses, A = 1, V = 3, row 1, r = 0.2, D = 0.3, eps = 0.1, with plain floats.

    P = (1-p, p), p = 1/(1 + e^-2), the mean slope is 2p - 1 and both distances from it are `distance`; G = 1.2.
    """

    eps: float = 0.1
    far: float = 0.2
    slope: float = 1.2
    reach: float = 0.3

    @property
    def p(self) -> tuple[float, float]:
        p = 1 / (1 + math.exp(-2))
        return 1 - p, p

    @property
    def distance(self) -> tuple[float, float]:
        return 2 * self.p[1], 2 * self.p[0]

    @property
    def second(self) -> float:
        t = self.slope * self.reach
        return (math.expm1(t) - t) / t**2

    @property
    def ceiling(self) -> list[float]:
        high, low = self._moved(1), self._moved(-1)
        return [min(high[j] / (high[j] + low[1 - j]), high[j]) for j in (0, 1)]

    @property
    def drift(self) -> list[float]:
        high, low = self._moved(1), self._moved(-1)
        bent = sum(p * (math.expm1(self.far * d) - self.far * d) for p, d in zip(self.p, self.distance, strict=True))
        floor = [max(low[j] / (low[j] + high[1 - j]), low[j] / (1 + bent)) for j in (0, 1)]
        return [max(up - p, p - down) for up, down, p in zip(self.ceiling, floor, self.p, strict=True)]

    @property
    def fall(self) -> float:
        return self.eps * self.slope * math.sqrt(2 * sum(u**2 for u in self.ceiling))

    @property
    def excess(self) -> float:
        rise = self.fall + self.eps**2 * 2 * max(self.ceiling) * self.slope**2 * self.second
        return max(math.expm1(self.fall), rise / (1 + rise))

    @property
    def motion(self) -> float:
        return min(self.reach, self._drawn_motion)

    @property
    def _drawn_motion(self) -> float:
        return self.eps * math.sqrt(math.exp(self.fall + self.slope * self.reach) * 2 * max(self.ceiling))

    def shifted(self, weights: Sequence[float]) -> float:
        """sum_j w_j |Q_j - P_j| at most."""
        pairs = list(zip(self.ceiling, weights, strict=True))
        linear = self.eps * self.slope * math.sqrt(2 * sum((u * w) ** 2 for u, w in pairs))
        quadratic = self.eps**2 * self.slope**2 * self.second * 2 * max(u * w for u, w in pairs)
        still = sum(off * w for off, w in zip(self.drift, weights, strict=True))
        total = still + math.exp(self.fall) * (linear + quadratic) + self.excess * sum(u * w for u, w in pairs)
        return min(total, 2 * max(weights))

    def _moved(self, sign: int) -> list[float]:
        return [p * math.exp(sign * self.far * d) for p, d in zip(self.p, self.distance, strict=True)]

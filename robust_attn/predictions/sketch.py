"""Gaussian tangents, and the factors that make their sample norms upper values; whole bases where those are affordable.

For a linear functional a and Gaussian tangents g_1 .. g_K, |a|^2 <= kappa^2 mean (a g)^2 fails with probability at most
p, with kappa^2 = K / chi2.ppf(p, K). For a multilinear form and independent tangents in its places the same holds of
its Frobenius norm, with a larger factor. Spectral norms follow by fixing the left singular vector
(docs/proofs/predictions.md#sketches).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import final

import numpy as np
import torch
from torch import Tensor

from robust_attn.predictions.gram import squared_norm


@cache
def chain_factor(count: int, order: int, probability: float) -> float:
    """kappa for a function that is affine in each of `order` independent Gaussian vectors, from `count` samples of it.

    With m^2 the mean square of the function, mean of squares >= (m / kappa)^2 but for that probability. By Chernoff's
    bound: E exp(-t f^2) <= E exp(-t m^2 g_1^2 .. g_order^2) (docs/proofs/predictions.md#chains), tabulated in t.
    """
    if order == 1:
        from scipy import stats  # half a second, for those who follow samples alone

        return math.sqrt(count / float(stats.chi2.ppf(probability, count)))
    logs, transform = _transform(order)
    share = float(np.max((-transform + math.log(probability) / count - TABLE_ERROR) / np.exp(logs)))
    return 1 / math.sqrt(share) if share > 0 else math.inf


TABLE_ERROR = 1e-7
"""Allowance for the quadrature in the logarithm of a transform; it is exact to 1e-10."""


@cache
def _transform(order: int) -> tuple[np.ndarray, np.ndarray]:
    """log E exp(-t g_1^2 .. g_order^2) at the logarithms of t, by the trapezoidal rule in log g^2."""
    logs = np.linspace(-24.0, 60.0, 2101)
    if order == 1:
        return logs, -0.5 * np.log1p(2 * np.exp(logs))
    before = np.exp(_transform(order - 1)[1])
    squares = np.linspace(-70.0, 5.0, 1876)  # the same spacing, 0.04
    density = np.exp(squares / 2 - np.exp(squares) / 2)
    density /= density.sum()
    padded = np.concatenate([np.ones(len(squares)), before, np.full(len(squares), before[-1])])
    shift = round(float(squares[0] / 0.04))
    start = len(squares) + shift
    windows = np.lib.stride_tricks.sliding_window_view(padded[start:], len(squares))[: len(logs)]
    return logs, np.log(windows @ density)


class Draws(ABC):
    """Lists of tangents for the first order (for products: four of them), and noise for what remainders inject.

    Sums of squares over samples of an order, from that many lists, times `chain` are upper values of squared norms.
    """

    lists: int
    """How many lists there are: two give pairs, four also products of three and four."""

    @abstractmethod
    def basis(self, free: Tensor) -> Tensor | None:
        """All unit vectors in the free directions, where they are no more than samples would be: no factor."""

    @abstractmethod
    def chain(self, order: int, lists: int) -> float:
        """For functions of first orders that are affine in each of `order` independent draws."""

    @abstractmethod
    def injected(self, order: int) -> float:
        """The same for what remainders injected (order 1), and for its products with a first order (order 2)."""

    def chain_norms(self, order: int, lists: int) -> float:
        """As `chain`, for norms: there are far fewer of them than of functionals, so each may fail more often."""
        return self.chain(order, lists)

    def injected_norms(self, order: int) -> float:
        """As `injected`, for norms."""
        return self.injected(order)

    @final
    def sample(self, tangents: Tensor, order: int, lists: int) -> Sample:
        """Sampled tangents of that order with their factors."""
        return Sample(tangents, self.chain(order, lists), self.chain_norms(order, lists), self.left_out(order))

    def left_out(self, order: int) -> int:  # noqa: ARG002
        """How many of the largest samples norms of that order do without."""
        return 0

    @abstractmethod
    def tangents(self, free: Tensor) -> Tensor:
        """All lists, in the directions in which the perturbation is free (a mask of the input's shape)."""

    @abstractmethod
    def injection(self, axes: Tensor) -> Tensor:
        """Samples of the ellipsoid with these half axes, independent of everything drawn before."""


@final
class GaussianDraws(Draws):
    """Gaussian tangents from a generator, `count` in each list.

    `probability` is that of one failure of a functional, `norms` (the same if None) that of a failure of one norm.
    NumPy's generator takes in every bit of its seed, as torch's on a CPU does not: nobody can try all seeds.
    """

    lists = 4

    def __init__(
        self, generator: np.random.Generator, count: int, probability: float, norms: float | None = None
    ) -> None:
        self._generator, self._count, self._probability = generator, count, probability
        self._norms = probability if norms is None else norms
        self._drawn = count

    def basis(self, free: Tensor) -> Tensor | None:
        """Up to as many as all lists together."""
        return unit_vectors(free) if int(free.sum()) <= self.lists * self._count else None

    def fewer(self, planning: int) -> GaussianDraws:
        """Fewer samples with the factors of all of them: for guesses, nothing is promised."""
        thin = GaussianDraws(self._generator, self._count, self._probability, self._norms)
        thin._drawn = min(planning, self._count)
        return thin

    def chain(self, order: int, lists: int) -> float:
        """The squared factor over the number of samples."""
        return chain_factor(lists * self._count, order, self._probability) ** 2 / (lists * self._drawn)

    def chain_norms(self, order: int, lists: int) -> float:
        """With the probability of norms, and for every choice of the samples that are left out."""
        count, out = lists * self._count, self.left_out(order)
        factor = chain_factor(count - out, order, self._norms / math.comb(count, out))
        return factor**2 / (lists * self._drawn - out)

    def left_out(self, order: int) -> int:
        """One of the fourth order, which is most often several times as large as all others."""
        return 1 if order == 4 else 0

    def injected_norms(self, order: int) -> float:
        """That of two lists."""
        return self.chain_norms(order, 2)

    def injected(self, order: int) -> float:
        """That of two lists."""
        return self.chain(order, 2)

    def tangents(self, free: Tensor) -> Tensor:
        """Independent standard normal entries."""
        return self._normal(self.lists, free) * free

    def injection(self, axes: Tensor) -> Tensor:
        """Half axes times standard normal entries, two lists."""
        return self._normal(2, axes) * axes

    def _normal(self, lists: int, like: Tensor) -> Tensor:
        return torch.from_numpy(self._generator.standard_normal((lists * self._drawn, *like.shape))).to(like.dtype)


@final
class BasisDraws(Draws):
    """Every unit vector, every pair of them, and one unit vector per coordinate of every ellipsoid: no probability."""

    lists = 2

    def __init__(self, free: Tensor, injected: int) -> None:
        self._size, self._columns, self._used = int(free.sum()), injected, 0

    def basis(self, free: Tensor) -> Tensor | None:
        """All of them."""
        return unit_vectors(free)

    def chain(self, order: int, lists: int) -> float:
        """Unit vectors stand `size` times in each list, pairs once."""
        if order > 2:
            raise ValueError("products of three perturbations have no affordable basis")
        return 1 / (lists * self._size) if order == 1 else 1.0

    def injected(self, order: int) -> float:
        """Every half axis once."""
        if order > 1:
            raise ValueError("products of perturbations and remainders have no affordable basis")
        return 1.0

    def tangents(self, free: Tensor) -> Tensor:
        """All pairs (e_i, e_j)."""
        basis = unit_vectors(free)
        return torch.cat([basis.repeat_interleave(self._size, 0), basis.repeat(self._size, *[1] * free.dim())])

    def injection(self, axes: Tensor) -> Tensor:
        """Columns of their own."""
        block = torch.zeros(self._columns, axes.numel(), dtype=axes.dtype)
        block[self._used : self._used + axes.numel()] = torch.diag(axes.flatten())
        self._used += axes.numel()
        return block.unflatten(1, axes.shape)


def unit_vectors(free: Tensor) -> Tensor:
    """[free coordinates, *shape]."""
    return torch.diag(free.flatten())[free.flatten() > 0].unflatten(1, free.shape)


@dataclass(frozen=True, eq=False)
class Sample:
    """Sampled tangents of one tensor, [count, *shape], and the factors of their sums of squares.

    `factor` is that of entries and rows, `norm_factor` (the same if None) that of the norm of the whole, for which
    `left_out` of the samples, the largest ones, do not count.
    """

    tangents: Tensor
    factor: float
    norm_factor: float | None = None
    left_out: int = 0

    def thinned(self, count: int | None) -> Sample:
        """The first few samples (all, if None) in single precision with the factor scaled: for guesses."""
        kept = self.tangents[:count].float()
        ratio = len(self.tangents) / len(kept)
        return Sample(kept, self.factor * ratio, self._of_norm * ratio, self.left_out)

    @property
    def _of_norm(self) -> float:
        return self.factor if self.norm_factor is None else self.norm_factor

    def ranges(self) -> Tensor:
        """Upper values of the size of every entry."""
        return (self.tangents.double().square().sum(0) * self.factor).sqrt()

    def rows(self, weights: Tensor) -> Tensor:
        """Upper values of the Euclidean norms along the last axis, weighted."""
        moved = (self.tangents * weights.to(self.tangents)).movedim(0, -1)
        return (_largest(moved @ moved.transpose(-1, -2)) * self.factor).sqrt()

    def norm(self, weights: Tensor) -> Tensor:
        """Upper value of the Euclidean norm of the whole tensor, weighted."""
        flat = self.tangents.flatten(1)
        scale = weights.to(flat).expand(self.tangents.shape[1:]).flatten()
        flat = _without_largest(flat, scale, self.left_out) if self.left_out else flat
        if flat.shape[0] > flat.shape[1]:
            flat = flat * scale
            return (_largest(flat.T @ flat) * self._of_norm).sqrt()
        return (squared_norm(flat, scale) * self._of_norm).sqrt()


def _without_largest(flat: Tensor, scale: Tensor, count: int) -> Tensor:
    """Without so many rows, those of the largest weighted norms; all of them where one is not finite."""
    sizes = (flat * scale).square().sum(1)
    return flat[sizes.argsort()[: len(flat) - count]] if bool(sizes.isfinite().all()) else flat


def _largest(gram: Tensor) -> Tensor:
    """Largest eigenvalue, in float64, from the lower half; not-a-number where an entry is not finite."""
    if not bool(gram.isfinite().all()):
        return torch.full(gram.shape[:-2], torch.nan, dtype=torch.float64)
    return torch.linalg.eigvalsh(gram.double())[..., -1].clamp(min=0)

"""The second derivative of a layer at the tokens, bounded by what it does to pairs of Gaussian displacements.

For one direction w of the output, <w, D^2 f [., .]> is a bilinear form, whose largest value is at most its Frobenius
norm; mean squares over pairs of Gaussian vectors, times a factor, are upper values of that. The direction is that of
the largest value, so the factor is needed once (docs/proofs/local.md#second-derivative-by-samples).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.derivatives import Derivatives
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.predictions.sketch import chain_factor
from robust_attn.spectral.matrix_norms import norm_upper

STREAM = 3
"""Which of the generators of a seed draws the pairs: another one than those of other bounds."""
CHUNK_ELEMENTS, CHUNK_WEIGHTS = 2**17, 2**20
"""Entries of displacements, and attention weights, that are worked on at a time: what stays in the cache."""
MOST_ENTRIES, MOST_ASKED = 1e7, 1e9
"""Entries of all displacements of one list, by default (some seconds for each sample) and where a number was asked for
(eight gigabytes of results)."""


@dataclass(frozen=True)
class Pairs:
    """How many pairs are drawn, and how likely upper values from them may fail, all samples of a batch together.

    `most_entries` is how many entries the displacements of one list may have: more are not worth their time, unless
    somebody asked for them.
    """

    count: int = 256
    failure_probability: float = 1e-9
    most_entries: float = MOST_ENTRIES


@dataclass(frozen=True, eq=False)
class SecondConstants:
    """Upper values of |D^2 f [d, d]| / |d|^2 at every sample of a batch, in the norm of `weights`; each made once.

    They hold together but for the failure probability, over pairs that are drawn by the seed. Samples are counted from
    `first` on.
    """

    layer: AttentionLayer
    measure: TokenMeasure
    weights: Float[Tensor, "samples n"]
    pairs: Pairs
    seed: int
    first: int = 0
    _known: dict[int, float] = field(default_factory=dict)

    def refusal(self) -> str | None:
        """Why nothing is known, or None."""
        if self.layer.normed:
            return "queries or keys are normalised"
        if self.pairs.count * self.measure.points[0].numel() > self.pairs.most_entries:
            return f"{self.measure.length} atoms are too many for {self.pairs.count} pairs (certificate.pairs)"
        return None

    def alone(self, sample: int) -> SecondConstants:
        """The same of one sample, as a batch of one; what is known of it stays known."""
        return replace(self, first=self.first + sample)

    def upper(self, sample: int) -> float:
        """The upper value of one sample; not a number where it cannot be computed."""
        sample += self.first
        if sample not in self._known:
            pairs = replace(self.pairs, failure_probability=self.pairs.failure_probability / len(self.measure.points))
            generator = np.random.default_rng((self.seed, sample, STREAM))
            one, weights = self.measure.sample(sample), self.weights[sample]
            self._known[sample] = second_upper(self.layer, one, weights, pairs=pairs, generator=generator)
        return self._known[sample]


def second_upper(
    layer: AttentionLayer,
    measure: TokenMeasure,
    weights: Float[Tensor, "n"],
    *,
    pairs: Pairs,
    generator: np.random.Generator,
) -> float:
    """An upper value of |D^2 f [d, d]|_w / |d|_w^2 at one measure, in float64, but for the probability of the pairs.

    Padding does not move and does not count.
    """
    root = weights[measure.present].double().sqrt()[:, None]
    derivative = Derivatives.at(layer, measure.without_padding())
    found = [derivative.second(*pair) for pair in _drawn(derivative, pairs.count, 1 / root, generator)]
    values = torch.cat([(each.value * root).flatten(1) for each in found])
    error = torch.cat([each.error for each in found]).norm() * root.max()
    size = (norm_upper(values) + error * (1 + 1e-9)) / math.sqrt(pairs.count)
    return float(size) * chain_factor(pairs.count, 2, pairs.failure_probability) * (1 + 1e-9)


def _drawn(
    derivative: Derivatives, count: int, stretch: Tensor, generator: np.random.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Pairs of Gaussian displacements of unit covariance in the weighted norm, some at a time."""
    shape, weights = derivative.measure.points.shape, derivative.attention.value.numel()
    size = max(1, min(CHUNK_ELEMENTS // shape.numel(), CHUNK_WEIGHTS // weights, count))
    for start in range(0, count, size):
        drawn = torch.from_numpy(generator.standard_normal((min(size, count - start), 2, *shape)))
        first, second = (drawn.to(stretch.device) * stretch).unbind(1)
        yield first, second

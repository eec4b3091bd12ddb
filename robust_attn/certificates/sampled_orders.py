"""The derivatives of a layer at the tokens, bounded by what they do to tuples of Gaussian displacements.

For one direction w of the output, <w, D^k f [., ..., .]> is a form in k vectors, whose largest value is at most its
Frobenius norm; mean squares over tuples of Gaussian vectors, times a factor, are upper values of that. The direction is
that of the largest value, so the factor is needed once (docs/proofs/local.md#derivatives-by-samples).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.derivatives import Chosen, Derivatives, Outputs
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.predictions.sketch import chain_factor
from robust_attn.spectral.matrix_norms import norm_upper

SECOND_STREAM, HIGHER_STREAM = 3, 4
"""Which of the generators of a seed draw the pairs and the tuples of five: others than those of other bounds."""
CHUNK_ELEMENTS, CHUNK_WEIGHTS = 2**18, 2**20
"""Entries of displacements, and attention weights, that are worked on at a time: what nearly stays in the cache."""
MOST_ENTRIES, MOST_ASKED = 1e7, 1e9
"""Entries of all displacements of one list, by default (some seconds for each sample) and where a number was asked for;
the latter also of all results together (eight gigabytes)."""
Choices = Mapping[int, Sequence[Chosen]]
PAIR: Choices = {2: [(0, 1)]}
FIVE: Choices = {2: [(0, 1), (2, 3)], 3: [(0, 1, 2)], 4: [(0, 1, 2, 3)], 5: [(0, 1, 2, 3, 4)]}
"""For each order which of the displacements of a tuple it is taken along; no two choices of an order share one."""


@dataclass(frozen=True)
class Pairs:
    """How many tuples are drawn, and how likely upper values from them may fail, all samples of a batch together.

    `most_entries` is how many entries the displacements of one list may have: more are not worth their time, unless
    somebody asked for them.
    """

    count: int = 256
    failure_probability: float = 1e-9
    most_entries: float = MOST_ENTRIES


@dataclass(frozen=True, eq=False)
class SampledOrders:
    """Upper values of |D^k f [d, .., d]| / |d|^k at every sample of a batch, in the norm of `weights`; each made once.

    They hold together but for the failure probability, over tuples that are drawn by the seed. Samples are counted from
    `first` on.
    """

    layer: AttentionLayer
    measure: TokenMeasure
    weights: Float[Tensor, "samples n"]
    pairs: Pairs
    seed: int
    first: int = 0
    _known: dict[tuple[int, int], Mapping[int, float]] = field(default_factory=dict)

    def refusal(self, choices: Choices) -> str | None:
        """Why nothing is known of these orders, or None."""
        if self.layer.normed:
            return "queries or keys are normalised"
        entries = self.pairs.count * self.measure.points[0].numel()
        if entries > self.pairs.most_entries or entries * sum(map(len, choices.values())) > MOST_ASKED:
            return f"{self.measure.length} atoms are too many for {self.pairs.count} pairs (certificate.pairs)"
        return None

    def alone(self, sample: int) -> SampledOrders:
        """The same of one sample, as a batch of one; what is known of it stays known."""
        return replace(self, first=self.first + sample)

    def second(self, sample: int) -> float:
        """The upper value of the second order of one sample; not a number where it cannot be computed."""
        return self._uppers(sample, SECOND_STREAM, PAIR)[2]

    def up_to_fifth(self, sample: int) -> tuple[float, ...]:
        """Upper values of the orders two to five of one sample; not numbers where they cannot be computed."""
        found = self._uppers(sample, HIGHER_STREAM, FIVE)
        return (min(self.second(sample), found[2]), *(found[order] for order in (3, 4, 5)))

    def _uppers(self, sample: int, stream: int, choices: Choices) -> Mapping[int, float]:
        """Half of the failure probability is that of the pairs, half that of the tuples of five."""
        sample += self.first
        if (sample, stream) not in self._known:
            share = self.pairs.failure_probability / (2 * len(self.measure.points))
            generator = np.random.default_rng((self.seed, sample, stream))
            self._known[sample, stream] = order_uppers(
                Derivatives.at(self.layer, self.measure.sample(sample).without_padding()),
                self.weights[sample][self.measure.sample(sample).present],
                choices,
                pairs=replace(self.pairs, failure_probability=share),
                generator=generator,
            )
        return self._known[sample, stream]


def order_uppers(
    derivatives: Derivatives,
    weights: Float[Tensor, "n"],
    choices: Choices,
    *,
    pairs: Pairs,
    generator: np.random.Generator,
) -> dict[int, float]:
    """Upper values of |D^k f [d, .., d]|_w / |d|_w^k for each order k, but for the probability, which they share."""
    root = weights.double().sqrt()[:, None]
    wanted = [chosen for each in choices.values() for chosen in each]
    found: dict[int, list[Outputs]] = {order: [] for order in choices}
    for displacements in _drawn(derivatives, max(max(each) for each in wanted) + 1, pairs.count, 1 / root, generator):
        for chosen, outputs in zip(wanted, derivatives.of_each(wanted, *displacements), strict=True):
            found[len(chosen)].append(replace(outputs, value=outputs.value * root))
    share = pairs.failure_probability / len(choices)
    return {order: _upper(order, outputs, float(root.max()), share) for order, outputs in found.items()}


def _upper(order: int, outputs: Sequence[Outputs], heaviest: float, probability: float) -> float:
    """Rows of outputs as one matrix: its norm, with what rounding may have done, over the root of their number."""
    values = torch.cat([each.value.flatten(1) for each in outputs])
    error = heaviest * float(torch.stack([each.error * math.sqrt(len(each.value)) for each in outputs]).norm())
    size = (float(norm_upper(values)) + error * (1 + 1e-9)) / math.sqrt(len(values))
    return size * chain_factor(len(values), order, probability) * (1 + 1e-9)


def _drawn(
    derivatives: Derivatives, places: int, count: int, stretch: Tensor, generator: np.random.Generator
) -> Iterator[tuple[Tensor, ...]]:
    """Tuples of Gaussian displacements of unit covariance in the weighted norm, some at a time."""
    shape, weights = derivatives.measure.points.shape, derivatives.attention.value.numel()
    size = max(1, min(CHUNK_ELEMENTS // shape.numel(), CHUNK_WEIGHTS // weights, count))
    for start in range(0, count, size):
        drawn = torch.from_numpy(generator.standard_normal((min(size, count - start), places, *shape)))
        yield (drawn.to(stretch.device) * stretch).unbind(1)

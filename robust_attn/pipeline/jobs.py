"""What is worked on: a layer with its inputs, by which options its certificates are computed, from which seeds."""

from __future__ import annotations

import zlib
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.bounds.rows import KnownRows
from robust_attn.budget import Budget
from robust_attn.certificates.followed import Following
from robust_attn.certificates.sampled_orders import MOST_ASKED, MOST_ENTRIES, Pairs, SampledOrders
from robust_attn.data.rows import Origin
from robust_attn.spectral.lanczos import LipschitzEstimate, fresh_seed
from robust_attn.spectral.lipschitz import local_lipschitz, split_lipschitz


@dataclass(frozen=True)
class CertificateOptions:
    """How local constants are bounded: with Lanczos values and their failure probability, or without.

    `seed` draws their starts, one and the same for every layer: none of them chose its weights by it. It is fresh
    unless given, and depends on nothing else of a run. `pairs` are the Gaussian samples of the second order
    (`local.third_order`) and, where that is loose, of those up to the fifth (`local.sixth_order`): by default there are
    some where tokens stay whole, and none where they are split, which would take twice as long.
    `following` asks for the bound that follows higher orders.
    """

    deterministic: bool = False
    failure_probability: float = 1e-9
    lanczos_steps: int = 64
    seed: int = field(default_factory=fresh_seed)
    pairs: int | None = None
    following: Following | None = None

    def sampled_orders(
        self, layer: AttentionLayer, measure: TokenMeasure, budget: Budget, *, split: bool = False
    ) -> SampledOrders | None:
        """Upper values of the derivatives at a batch beyond the first, not computed yet; None where none are wanted."""
        count = (0 if split else Pairs.count) if self.pairs is None else self.pairs
        if self.deterministic or not count:
            return None
        measure = measure.to(torch.float64)
        pairs = Pairs(count, self.failure_probability, MOST_ENTRIES if self.pairs is None else MOST_ASKED)
        return SampledOrders(layer.to(torch.float64), measure, budget.weights(measure), pairs, self.seed)


@dataclass(frozen=True)
class Subject:
    """What a record is about. `origins` are those of its samples, empty where these are all there are, in order."""

    model: str
    weights: str
    layer: int | None = None
    head: int | None = None
    origins: tuple[Origin, ...] = ()

    def heading(self, sample: int, tokens: int) -> dict[str, Any]:
        """The fields that every record starts with."""
        return {
            "model": self.model,
            "weights": self.weights,
            "layer": self.layer,
            "head": self.head,
            **({"sample": sample} if not self.origins else asdict(self.origins[sample])),
            "tokens": tokens,
        }

    def alone(self, sample: int) -> Subject:
        """The same about one of the samples, which stays the sample that it is."""
        return replace(self, origins=(self.origins[sample] if self.origins else Origin(sample),))


SINGLE_HEAD = Subject("single_head", "given", 0)


@dataclass(frozen=True, eq=False)
class LayerJob:
    """One layer with its inputs (batched over samples). `longest` is how many tokens its model reads, where known."""

    subject: Subject
    layer: AttentionLayer
    inputs: TokenMeasure
    longest: int | None = None

    @property
    def samples(self) -> int:
        """How many."""
        return int(self.inputs.points.shape[0])

    def head(self, head: int) -> LayerJob:
        """The same inputs at one head alone."""
        return replace(self, subject=replace(self.subject, head=head), layer=self.layer.head(head))

    def with_heads(self) -> list[LayerJob]:
        """The layer itself, then each of its heads if there are several."""
        heads = range(self.layer.heads) if self.layer.heads > 1 else ()
        return [self, *map(self.head, heads)]

    def single_samples(self) -> list[LayerJob]:
        """The same layer with one sample at a time."""
        parts = (self.inputs.points, self.inputs.masses, self.inputs.positions)
        return [
            replace(
                self,
                subject=self.subject.alone(index),
                inputs=TokenMeasure(*(part[index : index + 1] for part in parts)),
            )
            for index in range(self.samples)
        ]


def generator_for(seed: int, *parts: object) -> torch.Generator:
    """A generator that depends on the seed and on what it is for, not on what ran before.

    The seed is hashed to 32 bits, because that is all that torch's CPU generator takes in.
    """
    return torch.Generator().manual_seed(zlib.crc32(repr((seed, *parts)).encode()))


def layer_estimate(
    job: LayerJob, weights: torch.Tensor, options: CertificateOptions, *, split: bool, rows: KnownRows | None = None
) -> LipschitzEstimate:
    """In float64 whatever the model's precision, from a start that depends on the certificate's own seed alone.

    Of tokens that may be split, `rows` that are known often say that queries alone do less than everything together.
    """
    asked: dict[str, Any] = {
        "weights": weights.double(),
        "seed": options.seed,
        "steps": options.lanczos_steps,
        "failure_probability": options.failure_probability,
    }
    if not split:
        return local_lipschitz(job.layer, job.inputs, **asked)
    queries = None if rows is None else rows.query_norm
    return split_lipschitz(job.layer, job.inputs, **asked, queries=queries)

"""Certified radii of one prediction, in the norm of a budget: our own, those of simpler proofs, and smoothing."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget, Frobenius, Wasserstein
from robust_attn.pipeline.jobs import CertificateOptions
from robust_attn.predictions.baselines import interval_radius, product_radius
from robust_attn.predictions.certificate import Effort, PredictionCertificate, certified_prediction
from robust_attn.predictions.smoothing import Smoothing, randomised_smoothing
from robust_attn.predictions.steps import Network
from robust_attn.predictions.words import certified_word, worst_direction
from robust_attn.records.parts import Proof, SmoothedPart
from robust_attn.through.classifier import Classifier
from robust_attn.through.network import network_of
from robust_attn.types import UserError, Verdict

OWN = ("all", "one_word")
"""The certificates of docs/proofs/predictions.md."""
MOVES_TOKENS = frozenset({"split", "typed"})
"""Ways to flip that do more than move tokens: no certified radius speaks of them."""


NOT_CONFIRMED = "no radius could be confirmed: more samples may help (task.sketch)"


@dataclass(frozen=True)
class PromiseOptions:
    """Which radii are computed, from how many Gaussian samples (None: by the model's size); smoothing where given."""

    which: tuple[str, ...] = ()
    samples: int | None = None
    smoothing: Smoothing | None = None

    @property
    def own(self) -> tuple[str, ...]:
        """Those that carry a failure probability."""
        return tuple(name for name in OWN if name in self.which)

    def effort(self) -> Effort:
        """With the samples that were asked for, if any."""
        return Effort(samples=self.samples)


@dataclass(frozen=True, eq=False)
class Promised:
    """What is proved about a prediction; `direction` is where the certificate is nearest to failing, if there is one.

    A radius that could not be computed is None.
    """

    radii: Mapping[str, float | None] = field(default_factory=dict)
    failure_probability: float | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    proof: Proof | None = None
    smoothed: SmoothedPart | None = None
    direction: Float[Tensor, "n d"] | None = None


def promised(
    classifier: Classifier,
    base: TokenMeasure,
    rows: Sequence[int],
    *,
    budget: Budget,
    asked: PromiseOptions,
    options: CertificateOptions,
    generator: torch.Generator,
) -> Promised:
    """All that is asked for; `rows` are the tokens that the radius of one word speaks of."""
    if not asked.which and asked.smoothing is None:
        return Promised()
    begin = time.perf_counter()
    smoothed, radius = _smoothed(classifier, base, asked.smoothing, generator)
    smooth = {} if asked.smoothing is None else {"smoothing": in_norm(radius, base, budget)}
    if not asked.which:
        return Promised(smooth, smoothed=smoothed)
    try:
        network = network_of(classifier, base.points[0])
        found = _certificates(network, base.points[0].double(), rows, asked, options)
    except UserError as error:
        proof = Proof(seconds=time.perf_counter() - begin, why_not=str(error))
        return Promised({**dict.fromkeys(asked.which), **smooth}, proof=proof, smoothed=smoothed)
    radii = {name: in_norm(radius, base, budget, alone=name == "one_word") for name, radius in found.radii.items()}
    proof = Proof(
        seconds=time.perf_counter() - begin,
        samples=None if options.deterministic or not asked.own else asked.samples,
        seed=None if options.deterministic or not asked.own else options.seed,
        words=len(rows) if "one_word" in asked.which else None,
        shares=found.shares("one_word"),
        why_not=NOT_CONFIRMED if any(found.radii[name] is None for name in asked.own) else None,
    )
    return Promised(
        radii={**radii, **smooth},
        failure_probability=found.failure_probability,
        shares=found.shares("all"),
        proof=proof,
        smoothed=smoothed,
        direction=worst_direction(network, base.points[0]).to(base.points.dtype),
    )


@dataclass(frozen=True, eq=False)
class _Found:
    """Radii in the Frobenius norm, and the certificates that have more to say."""

    radii: Mapping[str, float | None]
    certificates: Mapping[str, PredictionCertificate]

    @property
    def failure_probability(self) -> float | None:
        """The union bound over our own certificates; None where there is none."""
        chances = [each.failure_probability for each in self.certificates.values()]
        return sum(chances) if chances else None

    def shares(self, name: str) -> Mapping[str, float]:
        """By step."""
        return self.certificates[name].shares if name in self.certificates else {}


def _certificates(
    network: Network, points: Tensor, rows: Sequence[int], asked: PromiseOptions, options: CertificateOptions
) -> _Found:
    own: dict[str, PredictionCertificate] = {}
    chance = options.failure_probability / max(len(asked.own), 1)
    effort, deterministic, seed = asked.effort(), options.deterministic, options.seed
    if "all" in asked.which:
        own["all"] = certified_prediction(
            network, points, failure_probability=chance, deterministic=deterministic, seed=seed, effort=effort
        )
    if "one_word" in asked.which and rows:
        own["one_word"] = certified_word(
            network, points, rows, failure_probability=chance, deterministic=deterministic, seed=seed, effort=effort
        )
    simple: dict[str, Callable[[], float]] = {
        "interval": lambda: interval_radius(network.tape(points), torch.ones_like(points)),
        "product": lambda: product_radius(network.tape(points)),
    }
    with torch.no_grad():
        radii = {name: compute() for name, compute in simple.items() if name in asked.which}
    radii |= {name: each.radius if each.verdict == Verdict.HOLDS else 0.0 for name, each in own.items()}
    return _Found({name: radii[name] if radii.get(name, 0.0) > 0 else None for name in asked.which}, own)


def _smoothed(
    classifier: Classifier, base: TokenMeasure, smoothing: Smoothing | None, generator: torch.Generator
) -> tuple[SmoothedPart | None, float | None]:
    """What smoothing says, and its radius; None where it abstains."""
    if smoothing is None:
        return None, None

    def logits(points: Float[Tensor, "batch n d"]) -> Float[Tensor, "batch classes"]:
        return classifier.logits(TokenMeasure.uniform(points))

    found = randomised_smoothing(logits, base.points[0], smoothing, generator=generator)
    part = SmoothedPart(
        label=found.label,
        sigma=smoothing.sigma,
        samples=smoothing.samples,
        failure_probability=smoothing.failure_probability,
    )
    return part, None if found.label is None else found.radius


def in_norm(radius: float | None, base: TokenMeasure, budget: Budget, *, alone: bool = False) -> float | None:
    """A radius in the Frobenius norm as one in the budget's: every displacement inside the latter is inside the former.

    Root mean squares over n equal masses are Frobenius norms over sqrt(n), exactly. Tokens that move by r each make
    r sqrt(n) at most together; one that moves `alone` makes r.
    """
    if radius is None or isinstance(budget, Frobenius):
        return radius
    if isinstance(budget, Wasserstein):
        return radius * math.sqrt(float(base.masses[base.present].min()))
    return radius if alone else radius / math.sqrt(int(base.present.sum()))


def verdict_on(
    flips: Mapping[str, float | None], radii: Mapping[str, float | None], which: Sequence[str]
) -> Verdict | None:
    """Whether what was certified survived the attacks; None where nothing was to be certified.

    All that is certified for all tokens holds for one; nothing is certified about splitting and typing, and what holds
    for the smoothed classifier says nothing about this one.
    """
    if not which:
        return None
    for name in which:
        certified = radii.get(name)
        ways = ("one_word",) if name == "one_word" else tuple(way for way in flips if way not in MOVES_TOKENS)
        nearest = min((flip for way in ways if (flip := flips.get(way)) is not None), default=math.inf)
        if certified is not None and certified > nearest:
            return Verdict.VIOLATED
    needed = [name for name in OWN if name in which]
    known = [radii.get(name) is not None for name in needed or which]
    return Verdict.HOLDS if (all(known) if needed else any(known)) else Verdict.UNKNOWN

"""The tasks: from a model, inputs, an attack and a budget to records. No files, no terminal, no configuration."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from robust_attn.attacks.attack import Attack, AttackResult
from robust_attn.attacks.worst_case import WorstCaseSearch
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.bounds import paper, sharp
from robust_attn.bounds.bound import Bound
from robust_attn.bounds.setting import BallSetting
from robust_attn.budget import Budget, Frobenius
from robust_attn.certify import certify_batch
from robust_attn.record import Subject, bound_fields, finite, record
from robust_attn.spectral.lanczos import LipschitzEstimate
from robust_attn.spectral.lipschitz import local_lipschitz, split_lipschitz
from robust_attn.spectral.norms import head_norms

EIGEN_WIDTH = 256
"""Widest layer whose eigenvectors are looked for: a dense eigenproblem per head, cubic in the width."""


@dataclass(frozen=True)
class CertificateOptions:
    """How local constants are bounded: with Lanczos values and their failure probability, or without."""

    deterministic: bool = False
    failure_probability: float = 1e-9
    lanczos_steps: int = 64


@dataclass(frozen=True, eq=False)
class LayerJob:
    """One layer with its inputs (batched over samples)."""

    subject: Subject
    layer: AttentionLayer
    inputs: TokenMeasure


def generator_for(seed: int, *parts: object) -> torch.Generator:
    """A generator that depends on the seed and on what it is for, not on what ran before.

    The seed is hashed to 32 bits, because that is all that torch's CPU generator takes in.
    """
    return torch.Generator().manual_seed(zlib.crc32(repr((seed, *parts)).encode()))


def attack_records(
    job: LayerJob, attack: Attack, budget: Budget, options: CertificateOptions, *, seed: int
) -> Iterator[dict[str, Any]]:
    """Attack one layer on every sample, certify the measure that was attacked, and put both side by side.

    A split measure is certified as what it is: its atoms, their masses, and the exact local constant of copies.
    """
    result = attack(job.layer, job.inputs, budget, generator=generator_for(seed, "attack", job.subject.layer))
    estimate = _constant(job, budget, options, split=attack.copies > 1, seed=seed)
    yield from _records(job, result.observation.base, budget, estimate, result)


def certify_records(
    job: LayerJob, budget: Budget, options: CertificateOptions, *, heads: bool, seed: int
) -> Iterator[dict[str, Any]]:
    """Certificates of the layer as a whole and, if asked, of each head alone; nothing is attacked."""
    jobs = [job]
    if heads and job.layer.heads > 1:
        jobs += [_head_job(job, head) for head in range(job.layer.heads)]
    for part in jobs:
        estimate = _constant(part, budget, options, split=False, seed=seed)
        yield from _records(part, part.inputs, budget, estimate, None)


def lipschitz_records(job: LayerJob, options: CertificateOptions, *, seed: int) -> Iterator[dict[str, Any]]:
    """The local Lipschitz constant of the layer at each sample's tokens, in the averaged norm."""
    estimate = _estimate(job, job.inputs.masses, options, split=False, seed=seed)
    for sample in range(job.inputs.points.shape[0]):
        yield {
            **_heading(job.subject, sample, job.inputs.length),
            "task": "lipschitz",
            "radius": finite(float(job.inputs.radius[sample])),
            "lipschitz": {
                "lower": finite(float(estimate.lower[sample])),
                "upper": finite(float(estimate.upper[sample])),
                "failure_probability": estimate.failure_probability,
                "steps": estimate.steps,
                "converged": estimate.converged,
            },
        }


def worst_case_records(job: LayerJob, search: WorstCaseSearch, length: int, *, seed: int) -> Iterator[dict[str, Any]]:
    """The steepest configuration found in the ball, beside the bounds that no configuration there may exceed."""
    generator = generator_for(seed, "worst_case", job.subject.layer)
    worst = search(job.layer, length, generator=generator, starts=_adversarial_starts(job.layer, search.radius, length))
    bounds = _ball_bounds(job.layer, worst.points, search.radius)
    smallest = min((bound for bound in bounds if bound.certifies), key=lambda bound: bound.log10)
    certified = 10**smallest.log10 if smallest.log10 < 300 else math.inf
    holds = "HOLDS" if worst.constant <= certified * (1 + 1e-9) else "VIOLATED"
    yield {
        **_heading(job.subject, 0, length),
        "task": "worst_case",
        "radius": search.radius,
        "lipschitz": {"lower": finite(worst.constant), "upper": finite(certified), "failure_probability": 0.0},
        "bounds": [bound_fields(bound) for bound in bounds],
        "certified": {"bound": smallest.name, "constant": finite(certified), "failure_probability": 0.0},
        "tightness": finite(worst.constant / certified),
        "verdict": holds if math.isfinite(worst.constant) else "UNKNOWN",
        "convergence": [finite(value) for value in worst.history],
    }


def fitted_exponents(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Per layer, the slope of log(mean constant) against log(tokens), by least squares, with the spread of means."""
    layers: dict[int, dict[int, list[float]]] = {}
    for entry in records:
        lower = entry["lipschitz"]["lower"]
        if lower:
            layers.setdefault(entry["layer"], {}).setdefault(entry["tokens"], []).append(lower)
    return [
        {"layer": layer, "exponent": _slope({n: sum(v) / len(v) for n, v in lengths.items()})}
        for layer, lengths in sorted(layers.items())
    ]


def _slope(means: Mapping[int, float]) -> float | None:
    points = [(math.log(n), math.log(value)) for n, value in means.items()]
    if len(points) < 2:
        return None
    x_mean, y_mean = (sum(axis) / len(points) for axis in zip(*points, strict=True))
    covariance = sum((x - x_mean) * (y - y_mean) for x, y in points)
    return covariance / sum((x - x_mean) ** 2 for x, _ in points)


def _heading(subject: Subject, sample: int, tokens: int) -> dict[str, Any]:
    return {
        "schema": 1,
        "model": subject.model,
        "weights": subject.weights,
        "layer": subject.layer,
        "head": subject.head,
        "sample": sample,
        "tokens": tokens,
    }


def _head_job(job: LayerJob, head: int) -> LayerJob:
    subject = Subject(job.subject.model, job.subject.weights, job.subject.layer, head)
    return LayerJob(subject, job.layer.head(head), job.inputs)


def _constant(
    job: LayerJob, budget: Budget, options: CertificateOptions, *, split: bool, seed: int
) -> LipschitzEstimate | None:
    if options.deterministic:
        return None
    return _estimate(job, budget.weights(job.inputs).double(), options, split=split, seed=seed)


def _estimate(
    job: LayerJob, weights: torch.Tensor, options: CertificateOptions, *, split: bool, seed: int
) -> LipschitzEstimate:
    """In float64 whatever the model's precision, from a start that depends on the seed and the layer alone."""
    estimate = split_lipschitz if split else local_lipschitz
    return estimate(
        job.layer.to(torch.float64),
        job.inputs.to(torch.float64),
        weights=weights.double(),
        generator=generator_for(seed, "lanczos", job.subject.layer, job.subject.head),
        steps=options.lanczos_steps,
        failure_probability=options.failure_probability,
    )


def _records(
    job: LayerJob,
    attacked: TokenMeasure,
    budget: Budget,
    estimate: LipschitzEstimate | None,
    result: AttackResult | None,
) -> Iterator[dict[str, Any]]:
    certificates = certify_batch(job.layer, attacked, budget, lipschitz=estimate)
    for sample, certificate in enumerate(certificates):
        yield record(
            job.subject,
            sample,
            job.inputs.length,
            budget,
            certificate=certificate,
            lipschitz=estimate,
            result=result,
        )


def _adversarial_starts(layer: AttentionLayer, radius: float, length: int) -> tuple[torch.Tensor, ...]:
    """The paper's configuration for every head that has a real eigenvalue; none for rotary layers or one token."""
    if layer.rotary is not None or length < 2 or layer.width > EIGEN_WIDTH:
        return ()
    starts = []
    for head in range(layer.heads):
        A = layer.scale * layer.key[layer.group_of(head)].T @ layer.query[head]
        try:
            starts.append(paper.adversarial_tokens(A, radius=radius, length=length).to(layer.dtype))
        except ValueError:
            continue
    return tuple(starts)


def _ball_bounds(layer: AttentionLayer, points: torch.Tensor, radius: float) -> tuple[Bound, ...]:
    """Global bounds on the ball of `radius`, as Lipschitz constants in the Frobenius norm."""
    layer = layer.to(torch.float64)
    measure = TokenMeasure.uniform(points.double())
    ball = BallSetting.of(layer, head_norms(layer), measure, Frobenius(1.0), radius=radius)
    return (
        paper.discrete_upper(ball),
        paper.mean_field_upper(ball),
        paper.masked_mean_field_upper(ball),
        sharp.unified_upper(ball),
        sharp.half_square_upper(ball),
    )

"""The tasks: from a model, inputs, an attack and a budget to records. No files, no terminal, no configuration."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from robust_attn.attacks.attack import Attack, AttackResult
from robust_attn.attacks.baseline import RandomMove
from robust_attn.attacks.output_change import OutputChange
from robust_attn.attacks.worst_case import WorstCaseSearch
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.bounds import paper, sharp
from robust_attn.bounds.bound import Bound
from robust_attn.bounds.setting import BallSetting
from robust_attn.budget import Budget, Wasserstein
from robust_attn.certificates.layer import Certificate, certify_batch, certify_measures
from robust_attn.certificates.radius import certified_radii
from robust_attn.motion import motion_fields
from robust_attn.record import Subject, bound_fields, finite, heading, norm_fields, radius_fields, record
from robust_attn.spectral.lanczos import LipschitzEstimate, fresh_seed
from robust_attn.spectral.lipschitz import local_lipschitz, split_lipschitz
from robust_attn.spectral.norms import head_norms
from robust_attn.types import Side, Verdict

EIGEN_WIDTH = 256
"""Widest layer whose eigenvectors are looked for: a dense eigenproblem per head, cubic in the width."""
HYGIENE_TRIALS = 4
"""Random displacements that every attack is compared with."""
ROUNDING = 1e-9
"""Relative room for rounding where an attained constant is compared with a bound of the ball."""


@dataclass(frozen=True)
class CertificateOptions:
    """How local constants are bounded: with Lanczos values and their failure probability, or without.

    `seed` draws their starts, one and the same for every layer: none of them chose its weights by it. It is fresh
    unless given, and depends on nothing else of a run.
    """

    deterministic: bool = False
    failure_probability: float = 1e-9
    lanczos_steps: int = 64
    seed: int = field(default_factory=fresh_seed)


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
    job: LayerJob,
    attack: Attack,
    budget: Budget,
    options: CertificateOptions,
    *,
    seed: int,
    on_step: Callable[[], None] | None = None,
) -> Iterator[dict[str, Any]]:
    """Attack one layer on every sample, certify the measure that was attacked, and put both side by side.

    A split measure is certified as what it is: its atoms, their masses, and the exact local constant of copies. Where
    the attack chose the masses, what holds for every measure near is a certificate too, and the smaller one counts.
    """
    jobs = _single_samples(job) if attack.own_radius else [job]
    for first, part in enumerate(jobs):
        generator = generator_for(seed, "attack", job.subject.layer, *([first] if attack.own_radius else []))
        result = attack(part.layer, part.inputs, budget, generator=generator, on_step=on_step)
        estimate = _constant(*_certified(part, attack, result), result.budget, options)
        entries = _records(
            part, result.observation.base, result.budget, estimate, result, any_measure=attack.any_masses
        )
        compared = None if attack.own_radius else comparisons(part, result, seed=seed)
        motions = motion_fields(result.observation, part.inputs.length)
        for entry, facts, motion in zip(entries, attack_facts(result, compared), motions, strict=True):
            whole = {**entry, **facts, "budget": entry["budget"] | facts["budget"], "motion": motion}
            yield whole | {"sample": first + entry["sample"]}


def comparisons(job: LayerJob, result: AttackResult, *, seed: int) -> dict[str, torch.Tensor]:
    """What an attack must not stay below, as both lie in its budget: the output changes of other displacements.

    `random` is the best of a few random ones, `half` what half of the displacement found does.
    """
    seen, budget, layer = result.observation, result.budget, job.layer.to(torch.float64)
    generator = generator_for(seed, "hygiene", job.subject.layer)
    random = RandomMove(HYGIENE_TRIALS).propose(OutputChange(layer, seen.base), budget, generator).history[-1]
    halfway = seen.base.with_points((seen.base.points + seen.measure.points) / 2)
    return {"random": random, "half": budget.norm(layer(halfway) - layer(seen.base), seen.base)}


def attack_facts(result: AttackResult, compared: dict[str, torch.Tensor] | None) -> list[dict[str, Any]]:
    """Per sample: what was spent, the support, how light the lightest atom is, and what the attack is compared with."""
    base = result.observation.base
    lightest = torch.where(base.present, base.masses, torch.inf).amin(-1)
    support = result.budget.support_radius(base)
    return [
        {
            "gradients": result.gradients,
            "lightest_mass": finite(float(lightest[sample])),
            "budget": {"support": finite(float(support[sample]))},
            "hygiene": {name: finite(float(value[sample])) for name, value in (compared or {}).items()},
        }
        for sample in range(lightest.shape[0])
    ]


def certify_records(
    job: LayerJob,
    budget: Budget,
    options: CertificateOptions,
    *,
    heads: bool,
    tolerance: float | None = None,
) -> Iterator[dict[str, Any]]:
    """Certificates of the layer as a whole and, if asked, of each head alone; nothing is attacked.

    With a tolerance also the radius, in the norm of the budget, up to which the output changes by no more than that.
    """
    jobs = [job]
    if heads and job.layer.heads > 1:
        jobs += [head_job(job, head) for head in range(job.layer.heads)]
    for part in jobs:
        estimate = _constant(part, False, budget, options)
        facts = _certified_facts(part, budget, estimate, tolerance)
        for entry, more in zip(_records(part, part.inputs, budget, estimate, None), facts, strict=True):
            yield {**entry, **more}


def worst_case_records(job: LayerJob, search: WorstCaseSearch, length: int, *, seed: int) -> Iterator[dict[str, Any]]:
    """The steepest configuration found in the ball, beside the bounds that no configuration there may exceed."""
    generator = generator_for(seed, "worst_case", job.subject.layer)
    worst = search(job.layer, length, generator=generator, starts=_adversarial_starts(job.layer, search.radius, length))
    bounds = ball_bounds(job.layer, worst.measure, search.radius)
    yield {
        **heading(job.subject, 0, length),
        "task": "worst_case",
        "radius": search.radius,
        "masses": worst.measure.masses.sort(descending=True).values.tolist() if search.masses else None,
        **ball_verdict(worst.constant, bounds),
        "convergence": [finite(value) for value in worst.history],
    }


def ball_verdict(attained: float, bounds: Sequence[Bound]) -> dict[str, Any]:
    """A constant attained in a ball beside the bounds of that ball: VIOLATED above an upper or below a lower one.

    The lower bounds given must be those that the configuration measured is said to attain.
    """
    smallest = min((bound for bound in bounds if bound.certifies), key=lambda bound: bound.log10, default=None)
    certified = 10**smallest.log10 if smallest is not None and smallest.log10 < 300 else math.inf
    floors = [10**bound.log10 for bound in bounds if bound.applies and bound.side is Side.LOWER]
    holds = attained <= certified * (1 + ROUNDING) and all(attained >= floor * (1 - ROUNDING) for floor in floors)
    known = math.isfinite(attained) and smallest is not None
    return {
        "lipschitz": {"lower": finite(attained), "upper": finite(certified), "failure_probability": 0.0},
        "bounds": [bound_fields(bound) for bound in bounds],
        "certified": {
            "bound": smallest.name if smallest else None,
            "constant": finite(certified),
            "failure_probability": 0.0,
        },
        "tightness": finite(attained / certified),
        "verdict": str((Verdict.HOLDS if holds else Verdict.VIOLATED) if known else Verdict.UNKNOWN),
    }


def head_job(job: LayerJob, head: int) -> LayerJob:
    """The same inputs at one head alone."""
    subject = Subject(job.subject.model, job.subject.weights, job.subject.layer, head)
    return LayerJob(subject, job.layer.head(head), job.inputs)


def _certified(job: LayerJob, attack: Attack, result: AttackResult) -> tuple[LayerJob, bool]:
    """What the local constant is taken of, and whether as a split measure: the tokens, if their parts add up to them.

    In float32 the parts of a token add up to its mass only up to 1e-7: then the parts are certified as what they are.
    """
    split = attack.copies > 1
    if not split or job.inputs.masses.dtype == torch.float64:
        return job, split
    return replace(job, inputs=result.observation.base), False


def _constant(job: LayerJob, split: bool, budget: Budget, options: CertificateOptions) -> LipschitzEstimate | None:
    if options.deterministic:
        return None
    return layer_estimate(job, budget.weights(job.inputs.to(torch.float64)), options, split=split)


def layer_estimate(
    job: LayerJob, weights: torch.Tensor, options: CertificateOptions, *, split: bool
) -> LipschitzEstimate:
    """In float64 whatever the model's precision, from a start that depends on the certificate's own seed alone."""
    estimate = split_lipschitz if split else local_lipschitz
    return estimate(
        job.layer,
        job.inputs,
        weights=weights.double(),
        seed=options.seed,
        steps=options.lanczos_steps,
        failure_probability=options.failure_probability,
    )


def _records(
    job: LayerJob,
    attacked: TokenMeasure,
    budget: Budget,
    estimate: LipschitzEstimate | None,
    result: AttackResult | None,
    *,
    any_measure: bool = False,
) -> Iterator[dict[str, Any]]:
    certificates = certify_batch(job.layer, attacked, budget, lipschitz=estimate)
    if any_measure and isinstance(budget, Wasserstein):
        certificates = tuple(map(either, certificates, certify_measures(job.layer, job.inputs, budget)))
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


def either(first: Certificate, second: Certificate) -> Certificate:
    """The smaller of two certificates that both hold, with the bounds of both; not a number if one of them is not."""
    unknown = [certificate for certificate in (first, second) if math.isnan(certificate.output_change)]
    best = unknown[0] if unknown else min(first, second, key=lambda certificate: certificate.output_change)
    return replace(best, bounds=(*first.bounds, *second.bounds))


def _single_samples(job: LayerJob) -> list[LayerJob]:
    """The same layer with one sample at a time."""
    parts = (job.inputs.points, job.inputs.masses, job.inputs.positions)
    count = job.inputs.points.shape[0]
    return [replace(job, inputs=TokenMeasure(*(part[index : index + 1] for part in parts))) for index in range(count)]


def _certified_facts(
    job: LayerJob, budget: Budget, estimate: LipschitzEstimate | None, tolerance: float | None
) -> list[dict[str, Any]]:
    """Per sample what only the certify task says: the norms behind global bounds, and the certified radius if asked."""
    layer, inputs = job.layer.to(torch.float64), job.inputs.to(torch.float64)
    norms, samples = head_norms(layer), inputs.points.shape[0]
    radii = (
        [None] * samples
        if tolerance is None
        else certified_radii(layer, inputs, type(budget), tolerance, lipschitz=estimate, norms=norms)
    )
    balls = [BallSetting.around(layer, norms, inputs.sample(index), budget) for index in range(samples)]
    return [
        {"norms": norm_fields(ball), "certified_radius": radius_fields(found)}
        for ball, found in zip(balls, radii, strict=True)
    ]


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


def ball_bounds(layer: AttentionLayer, measure: TokenMeasure, radius: float) -> tuple[Bound, ...]:
    """Global bounds on the ball of `radius` with the masses of one sample, as constants in L2 of the measure.

    With equal masses that is also the constant in the Frobenius norm.
    """
    layer = layer.to(torch.float64)
    ball = BallSetting.of(layer, head_norms(layer), measure.to(torch.float64), Wasserstein(1.0), radius=radius)
    return (
        paper.discrete_upper(ball),
        paper.mean_field_upper(ball),
        paper.masked_mean_field_upper(ball),
        sharp.unified_upper(ball),
        sharp.half_square_upper(ball),
        sharp.sharp_mean_field_upper(ball),
    )

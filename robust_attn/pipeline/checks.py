"""Records of attacks and certificates: what was observed at a layer beside what is promised of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from robust_attn.attacks.attack import Attack, AttackResult
from robust_attn.attacks.baseline import RandomMove
from robust_attn.attacks.mass_split import MassSplit
from robust_attn.attacks.output_change import OutputChange
from robust_attn.bounds.pieces import can_split
from robust_attn.bounds.rows import KnownRows
from robust_attn.bounds.setting import BallSetting
from robust_attn.budget import Budget, Wasserstein
from robust_attn.certificates.layer import Certificate, certify_batch, verdict
from robust_attn.certificates.measures import certify_context
from robust_attn.certificates.radius import certified_radii
from robust_attn.pipeline import parts
from robust_attn.pipeline.jobs import CertificateOptions, LayerJob, generator_for, layer_estimate
from robust_attn.pipeline.motion import motion_parts
from robust_attn.records.kinds import AttackRecord, CertifyRecord, ContextRecord, TightnessRecord
from robust_attn.records.parts import Hygiene, Observed
from robust_attn.spectral.lanczos import LipschitzEstimate
from robust_attn.spectral.norms import HeadNorms, head_norms

FAR = 0.5
"""Where pieces may go farther than this part of the tokens' radius, what holds for any measure is asked as well."""
HYGIENE_TRIALS = 4
"""Random displacements that every attack is compared with."""


@dataclass(frozen=True, eq=False)
class Ready:
    """What several certificates of a layer at the same tokens are made of, computed once."""

    norms: HeadNorms
    rows: KnownRows | None


def check_fields(
    job: LayerJob,
    sample: int,
    budget: Budget,
    certificate: Certificate,
    *,
    lipschitz: LipschitzEstimate | None,
    result: AttackResult | None = None,
) -> dict[str, Any]:
    """What every check of a layer says. Without an attack the verdict speaks of the certificate alone."""
    observed = Observed() if result is None else parts.observed_part(result.observation, sample)
    change, rounding = observed.output_change or 0.0, observed.rounding or 0.0
    if result is not None and observed.output_change is None:
        change = math.nan
    copies = result.copies if result else 1
    support = None if result is None else float(result.budget.support_radius(result.observation.base)[sample])
    return {
        **job.subject.heading(sample, job.inputs.length),
        "copies": copies,
        "attack": result.attack if result else "none",
        "budget": parts.budget_part(budget, support),
        "scale": parts.scale_part(budget, job.inputs.sample(sample), job.layer),
        "observed": observed,
        "lipschitz": parts.constant_part(lipschitz, sample),
        "bounds": parts.bound_parts(certificate.bounds),
        "certified": parts.certified_part(certificate, copies=copies),
        "tightness": parts.ratio(observed.output_change, certificate.output_change),
        "verdict": verdict(
            change, rounding, certificate, None if result is None else result.observation.base.sample(sample)
        ),
        "convergence": parts.history_part(result, sample),
    }


def attack_records(
    job: LayerJob,
    attack: Attack,
    budget: Budget,
    options: CertificateOptions,
    *,
    seed: int,
    on_step: Callable[[], None] | None = None,
) -> Iterator[AttackRecord]:
    """Attack one layer on every sample, certify the measure that was attacked, and put both side by side.

    A split measure is certified as what it is: its atoms, their masses, and the exact local constant of copies. What
    holds for all splits in the attack's context is a certificate too: the smaller one counts, and the other stands
    beside it. `on_step` hears of every step.
    """
    attack = attack.in_context(job.longest)
    jobs = job.single_samples() if attack.own_radius else [job]
    for first, part in enumerate(jobs):
        generator = generator_for(seed, "attack", job.subject.layer, *([first] if attack.own_radius else []))
        result = attack(part.layer, part.inputs, budget, generator=generator, on_step=on_step)
        layer = part.layer.to(torch.float64)
        norms = head_norms(layer, positions=part.inputs.positions)
        ready = Ready(norms, KnownRows.at(layer, result.observation.base))
        estimate = _constant(*_certified(part, attack, result), result.budget, options, rows=ready.rows)
        in_context = _in_context(part, attack, result, estimate, ready)
        certificates = _certificates(part, result, estimate, options, in_context=in_context, ready=ready)
        hygiene = _hygiene(part, result, seed=seed) if not attack.own_radius else [Hygiene()] * part.samples
        base = result.observation.base
        lightest = torch.where(base.present, base.masses, torch.inf).amin(-1)
        motions = motion_parts(result.observation, part.inputs.length)
        for sample, certificate in enumerate(certificates):
            yield AttackRecord(
                **check_fields(part, sample, result.budget, certificate, lipschitz=estimate, result=result),
                gradients=result.gradients,
                lightest_mass=float(lightest[sample]),
                in_context=None if in_context is None else parts.certified_part(in_context[sample]),
                hygiene=hygiene[sample],
                motion=motions[sample],
            )


def certify_records(
    job: LayerJob, budget: Budget, options: CertificateOptions, *, heads: bool, tolerance: float | None = None
) -> Iterator[CertifyRecord]:
    """Certificates of the layer as a whole and, if asked, of each head alone; nothing is attacked.

    With a tolerance also the radius, in the norm of the budget, up to which the output changes by no more than that.
    """
    for part in job.with_heads() if heads else [job]:
        estimate = _constant(part, False, budget, options)
        layer, inputs = part.layer.to(torch.float64), part.inputs.to(torch.float64)
        norms = head_norms(layer, positions=inputs.positions)
        sampled = options.sampled_orders(layer, inputs, budget)
        certificates = certify_batch(
            layer, inputs, budget, lipschitz=estimate, norms=norms, sampled=sampled, following=options.following
        )
        radii: Sequence[Any] = [None] * part.samples
        if tolerance is not None:
            radii = certified_radii(
                layer, inputs, type(budget), tolerance, lipschitz=estimate, norms=norms, sampled=sampled
            )
        for sample, (certificate, radius) in enumerate(zip(certificates, radii, strict=True)):
            yield CertifyRecord(
                **check_fields(part, sample, budget, certificate, lipschitz=estimate),
                norms=parts.norms_part(BallSetting.around(layer, norms, inputs.sample(sample), budget)),
                certified_radius=parts.radius_part(radius),
            )


def tightness_records(
    job: LayerJob, kind: type[Budget], radii: Sequence[float], options: CertificateOptions
) -> Iterator[TightnessRecord]:
    """Certificates of every sample at every radius, from one local constant."""
    estimate = layer_estimate(job, kind(1.0).weights(job.inputs), options, split=False)
    norms = head_norms(job.layer.to(torch.float64), positions=job.inputs.positions)
    sampled = options.sampled_orders(job.layer, job.inputs, kind(1.0))
    for radius in radii:
        budget = kind(radius)
        certificates = certify_batch(
            job.layer,
            job.inputs,
            budget,
            lipschitz=estimate,
            norms=norms,
            sampled=sampled,
            following=options.following,
        )
        for sample, certificate in enumerate(certificates):
            yield TightnessRecord(**check_fields(job, sample, budget, certificate, lipschitz=estimate))


def context_records(
    job: LayerJob,
    attack: MassSplit,
    budget: Wasserstein,
    contexts: Sequence[float],
    options: CertificateOptions,
    *,
    seed: int,
) -> Iterator[ContextRecord]:
    """The attack in every context, beside what is promised against all splits there; constants are computed once."""
    estimates: dict[bool, LipschitzEstimate | None] = {}
    inputs, layer = job.inputs.to(torch.float64), job.layer.to(torch.float64)
    ready = Ready(head_norms(layer, positions=inputs.positions), KnownRows.at(layer, inputs))
    for context in contexts:
        split = bool(can_split(inputs, context).any())
        if split not in estimates:
            estimates[split] = None
            if not options.deterministic:
                estimates[split] = layer_estimate(job, inputs.masses, options, split=split, rows=ready.rows)
        generator = generator_for(seed, "attack", job.subject.layer)
        result = replace(attack, context=context)(job.layer, job.inputs, budget, generator=generator)
        certificates = _promised_in(context, job, budget, estimates[split], ready)
        base = result.observation.base
        lightest = torch.where(base.present, base.masses, torch.inf).amin(-1)
        for sample, certificate in enumerate(certificates):
            yield ContextRecord(
                **check_fields(job, sample, budget, certificate, lipschitz=estimates[split], result=result),
                context=context,
                lightest_mass=float(lightest[sample]),
            )


def either(first: Certificate, second: Certificate) -> Certificate:
    """The smaller of two certificates that both hold, with the bounds of both; not a number if one of them is not."""
    unknown = [certificate for certificate in (first, second) if math.isnan(certificate.output_change)]
    best = unknown[0] if unknown else min(first, second, key=lambda certificate: certificate.output_change)
    return replace(best, bounds=(*first.bounds, *second.bounds))


def _certificates(
    job: LayerJob,
    result: AttackResult,
    estimate: LipschitzEstimate | None,
    options: CertificateOptions,
    *,
    in_context: Sequence[Certificate] | None,
    ready: Ready,
) -> tuple[Certificate, ...]:
    """Of the measure that was attacked."""
    base = result.observation.base
    certificates = certify_batch(
        job.layer,
        base,
        result.budget,
        lipschitz=estimate,
        norms=ready.norms,
        sampled=options.sampled_orders(job.layer, base, result.budget, split=base.length > job.inputs.length),
        following=options.following,
        known=ready.rows,
    )
    return certificates if in_context is None else tuple(map(either, certificates, in_context))


def _in_context(
    job: LayerJob, attack: Attack, result: AttackResult, estimate: LipschitzEstimate | None, ready: Ready
) -> tuple[Certificate, ...] | None:
    """What holds for all splits of the tokens in the attack's context; None where the attack does not split at will.

    In float32 equal pieces do not add up to their tokens, so nothing that is said of these covers them.
    """
    budget, context = result.budget, attack.context_length
    if context is None or not isinstance(budget, Wasserstein) or not attack.any_masses:
        return None
    inputs = job.inputs.to(torch.float64)
    if not bool(can_split(inputs, context).all()):
        return None
    return _promised_in(context, job, budget, estimate, ready)


def _promised_in(
    context: float, job: LayerJob, budget: Wasserstein, estimate: LipschitzEstimate | None, ready: Ready
) -> tuple[Certificate, ...]:
    """The promises of all samples against splits in a context; of any measure too where pieces may go that far."""
    inputs = job.inputs.to(torch.float64)
    far = budget.radius * math.sqrt(context) > FAR * float(inputs.radius.max())
    supported = budget.support is not None and far
    return certify_context(
        job.layer,
        inputs,
        budget,
        context=context,
        lipschitz=estimate,
        norms=ready.norms,
        every_bound=supported,
        known=ready.rows,
    )


def _certified(job: LayerJob, attack: Attack, result: AttackResult) -> tuple[LayerJob, bool]:
    """What the local constant is taken of, and whether as a split measure: the tokens, if their pieces add up to them.

    In float32 equal pieces of a token add up to its mass up to 1e-7: then the pieces are certified as what they are.
    """
    split = attack.copies > 1
    if not split or attack.any_masses or job.inputs.masses.dtype == torch.float64:
        return job, split
    return replace(job, inputs=result.observation.base), False


def _constant(
    job: LayerJob, split: bool, budget: Budget, options: CertificateOptions, *, rows: KnownRows | None = None
) -> LipschitzEstimate | None:
    if options.deterministic:
        return None
    return layer_estimate(job, budget.weights(job.inputs.to(torch.float64)), options, split=split, rows=rows)


def _hygiene(job: LayerJob, result: AttackResult, *, seed: int) -> list[Hygiene]:
    """What an attack must not stay below, as both lie in its budget: the output changes of other displacements."""
    seen, budget, layer = result.observation, result.budget, job.layer.to(torch.float64)
    generator = generator_for(seed, "hygiene", job.subject.layer)
    random = RandomMove(HYGIENE_TRIALS).propose(OutputChange(layer, seen.base), budget, generator).history[-1]
    halfway = seen.base.with_points((seen.base.points + seen.measure.points) / 2)
    half = budget.norm(layer(halfway) - layer(seen.base), seen.base)
    return [Hygiene(random=float(one), half=float(other)) for one, other in zip(random, half, strict=True)]

"""Records: one plain dictionary per sample, layer and attack, in the shape that the contract fixes (schema 1)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from robust_attn.attacks.attack import AttackResult
from robust_attn.bounds.bound import Bound
from robust_attn.bounds.setting import BallSetting
from robust_attn.budget import Budget
from robust_attn.certificates.layer import Certificate, verdict
from robust_attn.certificates.radius import CertifiedRadius
from robust_attn.observation import Observation
from robust_attn.spectral.lanczos import LipschitzEstimate
from robust_attn.types import Verdict

SCHEMA = 1
HISTORY_POINTS = 64


@dataclass(frozen=True)
class Subject:
    """What a record is about."""

    model: str
    weights: str
    layer: int
    head: int | None = None


def heading(subject: Subject, sample: int, tokens: int) -> dict[str, Any]:
    """The fields that every record starts with."""
    return {
        "schema": SCHEMA,
        "model": subject.model,
        "weights": subject.weights,
        "layer": subject.layer,
        "head": subject.head,
        "sample": sample,
        "tokens": tokens,
    }


def record(
    subject: Subject,
    sample: int,
    tokens: int,
    budget: Budget,
    *,
    certificate: Certificate,
    lipschitz: LipschitzEstimate | None,
    result: AttackResult | None,
) -> dict[str, Any]:
    """One record. Without an attack the verdict speaks of the certificate alone: below the hull or not."""
    observed = _observed(result.observation if result else None, sample)
    change, rounding = observed["output_change"] or 0.0, observed["rounding"] or 0.0
    if result is not None and observed["output_change"] is None:
        change = math.nan
    return {
        **heading(subject, sample, tokens),
        "copies": result.copies if result else 1,
        "attack": result.attack if result else "none",
        "budget": {"kind": budget.kind, "radius": budget.radius},
        "observed": observed,
        "lipschitz": lipschitz_fields(lipschitz, sample),
        "bounds": [bound_fields(bound) for bound in certificate.bounds],
        "certified": {
            "bound": certificate.bound,
            "output_change": finite(certificate.output_change),
            "failure_probability": certificate.failure_probability,
        },
        "tightness": _ratio(observed["output_change"], certificate.output_change),
        "verdict": str(verdict(change, rounding, certificate)),
        "convergence": _history(result, sample),
    }


def bound_fields(bound: Bound) -> dict[str, Any]:
    """A bound as plain values; what is not finite becomes null."""
    return {
        "name": bound.name,
        "side": str(bound.side),
        "log10": finite(bound.log10),
        "output_change": finite(bound.output_change),
        "scope": str(bound.scope),
        "applies": bound.applies,
        "why_not": bound.why_not,
        "failure_probability": bound.failure_probability,
        "comparator": bound.comparator,
    }


def radius_fields(found: CertifiedRadius | None) -> dict[str, Any] | None:
    """A certified radius as plain values; null where none was asked for, a null radius where it is unbounded."""
    if found is None:
        return None
    return {
        "tolerance": found.tolerance,
        "radius": finite(found.radius),
        "bound": found.bound,
        "unbounded": found.unbounded,
        "failure_probability": found.failure_probability,
    }


def norm_fields(ball: BallSetting) -> dict[str, float | None]:
    """What global bounds are made of: R with the budget's reach, and per head |W_O W_V|, |A|, kappa and c_n.

    Of a layer with several heads each is the largest over the heads.
    """
    return {
        "radius": finite(ball.radius),
        "value": finite(float(ball.norms.value.max())),
        "interaction": finite(float(ball.norms.interaction.max())),
        "kappa": finite(float(ball.kappa.max())),
        "mixing": finite(float(ball.mixing().max())),
    }


def finite(value: float) -> float | None:
    """The number, or None where it is infinite or not a number: JSON has no such values."""
    return float(value) if math.isfinite(value) else None


def constant_unknown(record: Mapping[str, Any]) -> bool:
    """Whether a record without a verdict holds an estimate, known by its failure probability, that is not finite."""
    found = record.get("lipschitz") or {}
    estimated = "verdict" not in record and found.get("failure_probability") is not None
    return estimated and found.get("upper") is None


def worst_verdict(records: Sequence[Mapping[str, Any]]) -> Verdict | None:
    """The verdict that decides the exit status: VIOLATED before UNKNOWN before VACUOUS before HOLDS."""
    found = {record["verdict"] for record in records if "verdict" in record}
    order = (Verdict.VIOLATED, Verdict.UNKNOWN, Verdict.VACUOUS, Verdict.HOLDS)
    return next((verdict for verdict in order if verdict in found), None)


def _observed(observation: Observation | None, sample: int) -> dict[str, float | None]:
    names = ("input_change", "output_change", "gain", "w2_input", "w2_output", "w2_gain", "rounding")
    if observation is None:
        return dict.fromkeys(names)
    return {name: finite(float(getattr(observation, name)[sample])) for name in names}


def lipschitz_fields(estimate: LipschitzEstimate | None, sample: int) -> dict[str, Any]:
    """What a record says of a local constant: both sides, how surely, and whether the iteration had settled."""
    if estimate is None:
        return dict.fromkeys(("lower", "upper", "failure_probability", "steps", "converged", "seed"))
    return {
        "lower": finite(float(estimate.lower[sample])),
        "upper": finite(float(estimate.upper[sample])),
        "failure_probability": estimate.failure_probability,
        "steps": estimate.steps,
        "converged": estimate.converged,
        "seed": estimate.seed,
    }


def _ratio(observed: float | None, certified: float) -> float | None:
    if observed is None or not certified > 0:
        return None
    return finite(observed / certified)


def _history(result: AttackResult | None, sample: int) -> list[float | None]:
    if result is None:
        return []
    return [finite(float(value[sample])) for value in result.history[:HISTORY_POINTS]]

"""Results of the theory as parts of records."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from robust_attn.attacks.attack import AttackResult
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.bounds.bound import Bound
from robust_attn.bounds.setting import BallSetting
from robust_attn.budget import Budget
from robust_attn.certificates.layer import Certificate
from robust_attn.certificates.radius import CertifiedRadius
from robust_attn.observation import Observation
from robust_attn.records.parts import BoundPart, BudgetPart, Certified, Constant, Norms, Observed, RadiusPart, Scale
from robust_attn.spectral.lanczos import LipschitzEstimate
from robust_attn.types import Covers

HISTORY_POINTS = 64
"""Steps of an attack that are recorded."""


def budget_part(budget: Budget, support: float | None = None) -> BudgetPart:
    """The kind and radius of a budget, and the support of one sample."""
    return BudgetPart(kind=budget.kind, radius=budget.radius, support=support)


def scale_part(budget: Budget, tokens: TokenMeasure, layer: AttentionLayer | None = None) -> Scale:
    """How large the tokens of one sample are, and the output of the layer that reads them, if there is one."""
    measure = tokens.to(torch.float64)
    output = None if layer is None else float(budget.norm(layer.to(torch.float64)(measure), measure))
    return Scale(tokens=float(budget.norm(measure.points, measure)), output=output)


def observed_part(observation: Observation, sample: int) -> Observed:
    """What was measured of one sample."""
    names = ("input_change", "output_change", "gain", "w2_input", "w2_output", "w2_gain", "rounding")
    return Observed(**{name: float(getattr(observation, name)[sample]) for name in names})


def constant_part(estimate: LipschitzEstimate | None, sample: int) -> Constant:
    """A local constant: both sides, how surely, and whether the iteration had settled."""
    if estimate is None:
        return Constant()
    return Constant(
        lower=float(estimate.lower[sample]),
        upper=float(estimate.upper[sample]),
        failure_probability=estimate.failure_probability,
        steps=estimate.steps,
        converged=estimate.converged,
        seed=estimate.seed,
    )


def bound_parts(bounds: Sequence[Bound]) -> tuple[BoundPart, ...]:
    """Bounds in their order."""
    return tuple(map(BoundPart.of, bounds))


def certified_part(certificate: Certificate, *, copies: int = 1) -> Certified:
    """What is promised, and against which perturbations."""
    return Certified(
        bound=certificate.bound,
        output_change=certificate.output_change,
        failure_probability=certificate.failure_probability,
        covers=None if certificate.bound is None else _covered(certificate, copies),
        context=certificate.context,
    )


def _covered(certificate: Certificate, copies: int) -> Covers:
    """What the certificate covers; displacements of copies are those of the tokens written as such."""
    return Covers.COPIES if certificate.covers is Covers.ATOMS and copies > 1 else certificate.covers


def radius_part(found: CertifiedRadius | None) -> RadiusPart | None:
    """A certified radius; None where none was asked for."""
    return None if found is None else RadiusPart.of(found)


def norms_part(ball: BallSetting) -> Norms:
    """What global bounds are made of: R with the budget's reach, and the largest of each norm over the heads."""
    return Norms(
        radius=ball.radius,
        value=float(ball.norms.value.max()),
        interaction=float(ball.norms.interaction.max()),
        kappa=float(ball.kappa.max()),
        mixing=float(ball.mixing().max()),
    )


def history_part(result: AttackResult | None, sample: int) -> tuple[float, ...]:
    """The output change after every step, as many as are recorded."""
    return () if result is None else tuple(float(value[sample]) for value in result.history[:HISTORY_POINTS])


def ratio(observed: float | None, certified: float) -> float | None:
    """Observed over certified, where both are numbers and the second is not zero."""
    return observed / certified if observed is not None and math.isfinite(certified) and certified > 0 else None

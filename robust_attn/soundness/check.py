"""Attack a case as a run does, and compare what was observed with every bound by itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import BUDGETS, Wasserstein
from robust_attn.certificate import certify_measures
from robust_attn.pipeline import CertificateOptions, LayerJob, attack_records, generator_for
from robust_attn.radius_search import certified_radii
from robust_attn.record import Subject, bound_fields
from robust_attn.soundness.case import Case
from robust_attn.soundness.numbers import attack_of, budget_of, layer_of, measures_of
from robust_attn.spectral.lipschitz import local_lipschitz
from robust_attn.types import Scope

CERTIFICATE = "certificate"
RADIUS = "certified_radius"
OPTIONS = CertificateOptions(lanczos_steps=40)
FARTHEST = 1e3
"""Times the size of the tokens: how far an attack goes where a radius was certified that has no end."""
CONSTANT_ROUNDING = 1e-6
"""Relative room for rounding where a local constant attained by Lanczos is compared with one in closed form."""


@dataclass(frozen=True)
class Comparison:
    """What was observed beside what a bound allows. `rounding` is what float arithmetic may have added."""

    bound: str
    sample: int
    observed: float
    rounding: float
    allowed: float

    @property
    def violated(self) -> bool:
        """By the rule of every verdict."""
        return self.observed - self.rounding > self.allowed

    @property
    def approach(self) -> float:
        """Observed over allowed without what may be rounding; 1 would be exact."""
        above = max(self.observed - self.rounding, 0.0)
        return above / self.allowed if self.allowed > 0 else math.inf if above > 0 else 0.0


@dataclass(frozen=True)
class Checked:
    """Every comparison of a case, and for every sample about which nothing can be said the reason."""

    comparisons: tuple[Comparison, ...]
    unknown: tuple[str, ...] = ()

    @property
    def violations(self) -> tuple[Comparison, ...]:
        """Those that must not be."""
        return tuple(comparison for comparison in self.comparisons if comparison.violated)


def check(case: Case) -> Checked:
    """Attack and compare. What fails on the way is a reason to know nothing, never a reason to call it sound."""
    try:
        return _radius_checked(case) if case.tolerance is not None else _checked(case)
    except Exception as error:
        return Checked((), (f"{type(error).__name__}: {' '.join(str(error).split())[:200]}",))


def _checked(case: Case) -> Checked:
    layer = layer_of(case)
    inputs, budget, attack = measures_of(case, layer), budget_of(case), attack_of(case)
    job = LayerJob(Subject("random", "drawn", 0), layer, inputs)
    comparisons: list[Comparison] = []
    unknown: list[str] = []
    near = _bounds_of_measures(case, layer, inputs)
    for entry in attack_records(job, attack, budget, OPTIONS, seed=case.seed):
        number = case.samples[entry["sample"]]
        bounds = [*entry["bounds"], *near[entry["sample"]]]
        reason = _reason(entry)
        if reason is not None:
            unknown.append(reason)
        if entry["observed"]["output_change"] is not None:
            comparisons += _compared(entry, bounds, number)
    return Checked(tuple(comparisons), tuple(unknown))


def _bounds_of_measures(case: Case, layer: AttentionLayer, inputs: TokenMeasure) -> Sequence[list[dict[str, Any]]]:
    """Bounds for every measure near, where the attack does not bring them itself and stays in their support."""
    budget, attack = budget_of(case), attack_of(case)
    inside = attack.copies == 1 or budget.support is not None
    if not isinstance(budget, Wasserstein) or attack.any_masses or not inside:
        return [[] for _ in case.samples]
    found = certify_measures(layer, inputs, budget)
    return [[bound_fields(bound) for bound in certificate.bounds] for certificate in found]


def _reason(entry: Mapping[str, Any]) -> str | None:
    if entry["observed"]["output_change"] is None or entry["observed"]["rounding"] is None:
        return "the observed output change is not a finite number"
    if entry["certified"]["output_change"] is None:
        return "the certificate is not a finite number"
    return None


def _compared(entry: Mapping[str, Any], bounds: Sequence[Mapping[str, Any]], number: int) -> Iterator[Comparison]:
    """A bound on a set of perturbations with the output change, a constant at the tokens with the one attained."""
    observed, rounding = entry["observed"]["output_change"], entry["observed"]["rounding"]
    if rounding is None:
        return
    certified = entry["certified"]["output_change"]
    if certified is not None:
        yield Comparison(CERTIFICATE, number, observed, rounding, certified)
    for bound in bounds:
        allowed = bound["output_change"]
        if not bound["applies"] or bound["side"] != "upper" or bound["comparator"] or allowed is None:
            continue
        if bound["scope"] != Scope.LOCAL:
            yield Comparison(bound["name"], number, observed, rounding, allowed)
        elif entry["lipschitz"]["lower"] is not None:
            attained = entry["lipschitz"]["lower"] * entry["budget"]["radius"]
            yield Comparison(bound["name"], number, attained, CONSTANT_ROUNDING * attained + rounding, allowed)


def _radius_checked(case: Case) -> Checked:
    """No attack within a certified radius may change the output by more than the tolerance."""
    assert case.tolerance is not None
    layer = layer_of(case)
    inputs, kind = measures_of(case, layer), BUDGETS[case.budget]
    exact, measure = layer.to(torch.float64), inputs.to(torch.float64)
    generator = generator_for(case.seed, "radius")
    estimate = local_lipschitz(exact, measure, weights=kind(1.0).weights(measure), generator=generator)
    comparisons, unknown = [], []
    for index, found in enumerate(certified_radii(exact, measure, kind, case.tolerance, lipschitz=estimate)):
        if math.isnan(found.radius):
            unknown.append("no certificate is a finite number at any radius")
            continue
        radius = min(found.radius, FARTHEST * case.token_size)
        alone = replace(case, radius=radius, tolerance=None)
        seen = attack_of(alone)(exact, measure.sample(index), budget_of(alone), generator=generator).observation
        observed, rounding = float(seen.output_change), float(seen.rounding)
        if not (math.isfinite(observed) and math.isfinite(rounding)):
            unknown.append("the observed output change is not a finite number")
            continue
        comparisons.append(Comparison(RADIUS, case.samples[index], observed, rounding, case.tolerance))
    return Checked(tuple(comparisons), tuple(unknown))

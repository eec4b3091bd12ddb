"""Certificates as a run makes them: what it records, compared with every bound by itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget, TokenRadius, Wasserstein
from robust_attn.certificates.layer import certify_measures
from robust_attn.pipeline import LayerJob, attack_records
from robust_attn.record import Subject, bound_fields
from robust_attn.soundness.case import Case
from robust_attn.soundness.comparison import (
    CERTIFICATE,
    CONSTANT_ROUNDING,
    NOT_CERTIFIED,
    NOT_JUDGED,
    NOT_OBSERVED,
    Checked,
    Comparison,
    together,
)
from robust_attn.soundness.numbers import attack_of, budget_of, layer_of, measures_of, options_of
from robust_attn.types import Scope, Verdict


def records_checked(case: Case) -> Checked:
    """Attack as a run does, and compare what it records with every bound by itself."""
    layer = layer_of(case)
    inputs = measures_of(case, layer)
    budget = budget_of(case, inputs)
    job = LayerJob(Subject("random", "drawn", 0), layer, inputs)
    near = _bounds_of_measures(case, layer, inputs, budget)
    parts = []
    for entry in attack_records(job, attack_of(case), budget, options_of(case), seed=case.seed):
        number, reason = case.samples[entry["sample"]], reason_of(entry)
        found = tuple(compared(entry, [*entry["bounds"], *near[entry["sample"]]], number))
        parts.append(Checked(found, () if reason is None else (reason,)))
    return together(parts)


def _bounds_of_measures(
    case: Case, layer: AttentionLayer, inputs: TokenMeasure, budget: Budget
) -> Sequence[list[dict[str, Any]]]:
    """Bounds for every measure near, where the attack does not bring them itself, on a support that it cannot leave."""
    attack = attack_of(case)
    if not isinstance(budget, Wasserstein) or attack.any_masses or (attack.copies > 1 and budget.support is None):
        return [[] for _ in case.samples]
    found = certify_measures(layer, inputs, _supported(budget, inputs.to(torch.float64)))
    return [[bound_fields(bound) for bound in certificate.bounds] for certificate in found]


def _supported(budget: Wasserstein, inputs: TokenMeasure) -> Wasserstein:
    """The budget with the ball that holds its tokens wherever they may go whole, if it has no support."""
    if budget.support is not None:
        return budget
    reach = inputs.points.norm(dim=-1) + budget.reach(inputs)
    farthest = float(reach[inputs.present].max())
    return replace(budget, support=farthest if 0 < farthest < math.inf else TokenRadius())


def reason_of(entry: Mapping[str, Any]) -> str | None:
    """Why a record says nothing, None if it does."""
    if entry["observed"]["output_change"] is None or entry["observed"]["rounding"] is None:
        return NOT_OBSERVED
    if entry["certified"]["output_change"] is None:
        return NOT_CERTIFIED
    return NOT_JUDGED if entry["verdict"] == Verdict.UNKNOWN else None


def compared(entry: Mapping[str, Any], bounds: Sequence[Mapping[str, Any]], number: int) -> Iterator[Comparison]:
    """A bound on a set of perturbations with the output change, a constant at the tokens with the one attained."""
    observed, rounding = entry["observed"]["output_change"], entry["observed"]["rounding"]
    if observed is None or rounding is None:
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

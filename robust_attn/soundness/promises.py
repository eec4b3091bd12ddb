"""Certificates of the library under attack; its functions get layers and measures in their own precision."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.rounding import within_range
from robust_attn.budget import BUDGETS, Wasserstein
from robust_attn.certificates.followed import Following
from robust_attn.certificates.layer import Certificate, certify, verdict
from robust_attn.certificates.measures import certify_measures
from robust_attn.certificates.radius import CertifiedRadius, certified_radii, certified_radius
from robust_attn.soundness.case import RADII, Case
from robust_attn.soundness.comparison import (
    CERTIFICATE,
    NOT_CERTIFIED,
    NOT_JUDGED,
    NOT_OBSERVED,
    Checked,
    Comparison,
    speaks,
    together,
)
from robust_attn.soundness.constants import attained
from robust_attn.soundness.numbers import Given, chance, given
from robust_attn.soundness.strike import Strike, strike
from robust_attn.spectral.lipschitz import local_lipschitz
from robust_attn.types import Scope, UserError, Verdict

RADIUS = "certified_radius"
DUPLICATE = "duplicate"
FARTHEST = 1e3
"""Times the size of the tokens: how far an attack goes where a radius was certified that has no end."""
CONSTANT_PRODUCT = 1e-15
"""Relative rounding of a constant times a radius."""
FOLLOWED = 8
"""Every so many seeds higher orders are followed too, which takes a second."""
UNSUPPORTED = 100.0
"""Times the largest token norm: how far slivers go where a certificate of measures says nothing about a support."""


def certify_checked(case: Case) -> Checked:
    """`certify` for the measure attacked, perhaps written with copies."""
    asked = given(case)
    layer = asked.layer

    def one(number: int, sample: TokenMeasure) -> Checked:
        hit = strike(case, layer, sample, asked.budget, number)
        whole = hit.base.length == sample.length
        measure = sample if whole else hit.base
        following = Following(samples=64) if case.seed % FOLLOWED == 0 else None
        found = certify(
            layer, measure, hit.budget, deterministic=case.deterministic, following=following, **chance(case)
        )
        found = _as_far_as_it_speaks(layer, measure, found)
        held = _held(hit, found, number)
        return together((held, _constants_held(case, number, layer, sample, found))) if hit.exact and whole else held

    return together(one(*each) for each in asked.samples())


def _constants_held(
    case: Case, number: int, layer: AttentionLayer, sample: TokenMeasure, certificate: Certificate
) -> Checked:
    """Bounds of the constant at the tokens, times the radius, beside the exact one."""
    budget, measure = BUDGETS[case.budget](case.radius), sample.to(torch.float64)
    change = attained(case, layer, sample, budget.weights(measure)) * budget.hilbert_radius(measure)
    rounding = CONSTANT_PRODUCT * change
    return Checked(
        tuple(
            Comparison(bound.name, number, change, rounding, bound.output_change, exact=True)
            for bound in certificate.bounds
            if bound.scope is Scope.LOCAL and not (bound.comparator or math.isnan(bound.output_change))
        )
    )


def measures_checked(case: Case) -> Checked:
    """`certify_measures`: against whatever splits tokens, and against splits into pieces no lighter than those found.

    Without a support the first has to refuse.
    """
    asked = given(case)
    layer, inputs, budget = asked.layer, asked.inputs, asked.budget
    assert isinstance(budget, Wasserstein)
    anywhere = budget
    if budget.support is None:
        try:
            certify_measures(layer, inputs, budget)
        except (ValueError, UserError):
            return Checked(())
        anywhere = replace(budget, support=UNSUPPORTED * float(inputs.to(torch.float64).radius.max()))

    def one(number: int, sample: TokenMeasure) -> Checked:
        hit = strike(case, layer, sample, anywhere, number)
        promised = budget if hit.budget == anywhere else hit.budget
        assert isinstance(promised, Wasserstein)
        found = certify_measures(layer, sample, promised)
        anything = _held(hit, _as_far_as_it_speaks(layer, sample, found), number)
        if case.attack == DUPLICATE:  # it adds mass to a token, which no displacement of pieces does
            return anything
        shortest = _shortest_context(hit)
        found = certify_measures(
            layer, sample, promised, context=shortest, deterministic=case.deterministic, **chance(case)
        )
        return together((anything, _held(hit, _as_far_as_it_speaks(layer, sample, found), number)))

    return together(one(*each) for each in asked.samples())


def _shortest_context(hit: Strike) -> float:
    """The context with the least promise that covers a strike: as long as its lightest piece says."""
    return max(1.0, 1 / float(hit.base.masses[hit.base.present].min()))


def radius_checked(case: Case) -> Checked:
    """No attack within a certified radius may change the output by more than the tolerance."""
    assert case.tolerance is not None
    asked = given(case)
    pairs = zip(asked.samples(), _radii(case, asked, case.tolerance), strict=True)
    return together(_radius_held(case, asked.layer, sample, found, number) for (number, sample), found in pairs)


def _radii(case: Case, asked: Given, tolerance: float) -> Iterator[CertifiedRadius]:
    kind = BUDGETS[case.budget]
    if case.called == RADII:
        exact, measure = asked.layer.to(torch.float64), asked.inputs.to(torch.float64)
        estimate = local_lipschitz(exact, measure, weights=kind(1.0).weights(measure), **chance(case))
        yield from certified_radii(exact, measure, kind, tolerance, lipschitz=estimate)
        return
    for _, sample in asked.samples():
        plain = case.deterministic
        yield certified_radius(asked.layer, sample, kind, tolerance, deterministic=plain, **chance(case))


def _radius_held(
    case: Case, layer: AttentionLayer, sample: TokenMeasure, found: CertifiedRadius, number: int
) -> Checked:
    assert case.tolerance is not None
    if math.isnan(found.radius):
        return Checked((), ("no certificate is a finite number at any radius",))
    farthest = FARTHEST * max(case.token_size, float(sample.radius))
    hit = strike(case, layer, sample, BUDGETS[case.budget](min(found.radius, farthest)), number)
    return Checked((hit.beside(RADIUS, number, case.tolerance),)) if hit.usable else Checked((), (NOT_OBSERVED,))


def _as_far_as_it_speaks(layer: AttentionLayer, measure: TokenMeasure, certificate: Certificate) -> Certificate:
    """Where sizes are such that floats do not hold their squares, and nothing is certified, bounds say nothing too."""
    ranged = bool(within_range(layer.to(torch.float64), measure.to(torch.float64)))
    return certificate if ranged or not math.isnan(certificate.output_change) else replace(certificate, bounds=())


def _held(hit: Strike, certificate: Certificate, number: int) -> Checked:
    """A strike beside the certificate and each of its bounds."""
    if not hit.usable:
        return Checked((), (NOT_OBSERVED,))
    allowed = {bound.name: bound.output_change for bound in certificate.bounds if speaks(bound)}
    if math.isnan(certificate.output_change):
        reasons: tuple[str, ...] = (NOT_CERTIFIED,)
    else:
        allowed |= {CERTIFICATE: certificate.output_change}
        doubtful = not hit.exact and verdict(hit.change, hit.rounding, certificate) is Verdict.UNKNOWN
        reasons = (NOT_JUDGED,) if doubtful else ()
    return Checked(tuple(hit.beside(name, number, change) for name, change in allowed.items()), reasons)

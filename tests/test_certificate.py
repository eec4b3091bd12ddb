"""Soundness: every certificate against attacks; and that nothing which is no number ever certifies."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robust_attn.attacks.mass_split import MassSplit
from robust_attn.attacks.move import Move
from robust_attn.bounds.bound import Bound
from robust_attn.budget import BUDGETS, Frobenius, Wasserstein
from robust_attn.certificate import HULL, Certificate, certify, certify_batch, verdict
from robust_attn.spectral.lipschitz import local_lipschitz, split_lipschitz
from robust_attn.types import Scope, Verdict
from tests.cases import CASES, Case, generator, one_sample, random_layer, random_measure, scalar_layer, scalar_measure


@settings(max_examples=120)
@given(
    seed=st.integers(0, 10**6),
    index=st.integers(0, len(CASES) - 1),
    kind=st.sampled_from(sorted(BUDGETS)),
    log_radius=st.floats(-6, 1),
    log_size=st.floats(-1, 0.7),
    length=st.integers(1, 6),
)
def test_no_attack_exceeds_any_bound_that_applies(seed, index, kind, log_radius, log_size, length):  # noqa: PLR0917
    case, budget = CASES[index], BUDGETS[kind](10**log_radius)
    layer = random_layer(case, generator(seed))
    measure = random_measure(case, generator(seed + 1), length=length, radius=10**log_size)
    seen = Move(12)(layer, measure, budget, generator=generator(seed + 2)).observation
    estimate = local_lipschitz(layer, measure, weights=budget.weights(measure), generator=generator(seed + 3))
    for sample, certificate in enumerate(certify_batch(layer, measure, budget, lipschitz=estimate)):
        observed = float(seen.output_change[sample] - seen.rounding[sample])
        for bound in certificate.bounds:
            assert not bound.certifies or observed <= bound.output_change, bound.name
        assert certificate.output_change <= certificate.named(HULL).output_change


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), index=st.integers(0, len(CASES) - 1), log_radius=st.floats(-5, 1))
def test_no_split_exceeds_the_certificate_of_the_split_measure(seed, index, log_radius):
    case, budget = CASES[index], Wasserstein(10**log_radius)
    layer, measure = random_layer(case, generator(seed)), random_measure(case, generator(seed + 1), length=3)
    seen = MassSplit(2, 10)(layer, measure, budget, generator=generator(seed + 2)).observation
    estimate = split_lipschitz(layer, measure, generator=generator(seed + 3))
    for sample, certificate in enumerate(certify_batch(layer, seen.base, budget, lipschitz=estimate)):
        observed = float(seen.output_change[sample] - seen.rounding[sample])
        assert observed <= certificate.output_change


def test_second_order_certificate_is_nearly_tight_at_small_radii():
    case = Case()
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1), samples=1).sample(0)
    exact = float(local_lipschitz(layer, measure).lower)
    certificate = certify(layer, measure, Wasserstein(1e-6))
    assert certificate.bound == "local.second_order"
    assert exact <= certificate.output_change / 1e-6 <= 1.001 * exact


def test_exact_case():
    """A = 0, V = 3: the map is 3 times the mean, so radius 0.1 gives 0.3 and not more than a rounding margin above."""
    certificate = certify(scalar_layer(0.0, 3.0), scalar_measure([0.0, 1.0]), Wasserstein(0.1))
    assert 0.3 <= certificate.output_change <= 0.3 * (1 + 1e-8)


def test_deterministic_certificates_have_no_failure_probability():
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1), samples=1).sample(0)
    certificate = certify(layer, measure, Frobenius(0.01), deterministic=True)
    assert certificate.failure_probability == 0.0
    assert not certificate.named("local.second_order").applies
    assert math.isfinite(certificate.output_change)


def test_larger_radius_never_promises_less_change():
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1), samples=1).sample(0)
    changes = [certify(layer, measure, Wasserstein(10.0**k)).output_change for k in range(-6, 3)]
    assert changes == sorted(changes)


def test_radius_zero_certifies_zero():
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1), samples=1).sample(0)
    assert certify(layer, measure, Wasserstein(0.0)).output_change == 0.0


@pytest.mark.parametrize("field", ["query", "key", "value", "output"])
def test_weights_that_are_not_numbers_are_unknown(field):
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1), samples=1)
    broken = getattr(layer, field).clone()
    broken[0, 0, 0] = math.nan
    try:
        (certificate,) = certify_batch(
            dataclasses.replace(layer, **{field: broken}), measure, Wasserstein(0.1), lipschitz=None
        )
    except torch.linalg.LinAlgError:
        return
    assert verdict(0.0, 0.0, certificate) is Verdict.UNKNOWN


def _certificate(change: float, bound: str = "x") -> Certificate:
    return Certificate(bound, change, 0.0, (Bound(bound, 0.0, change, Scope.BALL),))


@pytest.mark.parametrize(
    ("observed", "rounding", "certificate", "expected"),
    [
        (1.0, 0.0, _certificate(2.0), Verdict.HOLDS),
        (1.0, 0.0, _certificate(2.0, HULL), Verdict.VACUOUS),
        (3.0, 0.0, _certificate(2.0), Verdict.VIOLATED),
        (3.0, 0.0, _certificate(2.0, HULL), Verdict.VIOLATED),
        (2.0 + 1e-12, 1e-11, _certificate(2.0), Verdict.HOLDS),
        (math.nan, 0.0, _certificate(2.0), Verdict.UNKNOWN),
        (1.0, math.nan, _certificate(2.0), Verdict.UNKNOWN),
        (1.0, 0.0, _certificate(math.nan), Verdict.UNKNOWN),
        (1.0, 0.0, _certificate(math.inf), Verdict.UNKNOWN),
    ],
)
def test_verdicts(observed, rounding, certificate, expected):
    assert verdict(observed, rounding, certificate) is expected


def test_a_planted_wrong_bound_is_caught():
    """The checker itself: halve the certificate of a solved case and the attack violates it."""
    layer, measure, budget = scalar_layer(0.0, 3.0), one_sample(scalar_measure([0.0, 1.0])), Wasserstein(0.1)
    seen = Move()(layer, measure, budget).observation
    right = certify(layer, measure.sample(0), budget)
    wrong = dataclasses.replace(right, output_change=right.output_change / 2)
    observed, rounding = float(seen.output_change), float(seen.rounding)
    assert verdict(observed, rounding, right) is Verdict.HOLDS
    assert verdict(observed, rounding, wrong) is Verdict.VIOLATED

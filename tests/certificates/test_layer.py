"""Soundness: every certificate against attacks; and that nothing which is no number ever certifies."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.attacks.mass_split import MassSplit
from robust_attn.attacks.move import Move
from robust_attn.bounds.ball import ball_norms
from robust_attn.bounds.bound import Bound
from robust_attn.budget import Frobenius, PerToken, Wasserstein
from robust_attn.certificates.layer import HULL, Certificate, certify, certify_batch, verdict
from robust_attn.spectral.lipschitz import local_lipschitz, split_lipschitz
from robust_attn.spectral.norms import head_norms
from robust_attn.types import Scope, Verdict
from tests.bounds.laws import ChangeLaws
from tests.cases import (
    MORE_CASES,
    Case,
    generator,
    one_sample,
    random_layer,
    random_measure,
    scalar_layer,
    scalar_measure,
)
from tests.selection import examples


class TestEveryBound(ChangeLaws):
    """Five percent for what rests on the curvature, where equally good ways to hold a row are ties."""

    growing = frozenset(
        {
            *("paper.discrete", "paper.mean_field", "paper.masked_mean_field", HULL),
            *("sharp.unified", "sharp.half_square", "sharp.mean_field", "sharp.token_max"),
        }
    )
    names = growing | {"local.second_order", "local.second_order_deterministic", "local.ball"}

    def promised(self, layer, sample, budget):
        certificate = certify(layer, sample, budget, seed=3)
        if certificate.bound is not None:
            assert certificate.output_change <= certificate.named(HULL).output_change
        return certificate.bounds

    def precision(self, name):
        return 5e-2 if "second_order" in name else 1e-6


@examples(in_ci=8)
@given(seed=st.integers(0, 10**6), case=st.sampled_from(MORE_CASES), log_radius=st.floats(-5, 1))
def test_no_split_exceeds_the_certificate_of_the_split_measure(seed, case, log_radius):
    budget = Wasserstein(10**log_radius)
    layer, measure = random_layer(case, generator(seed)), random_measure(case, generator(seed + 1), length=3)
    seen = MassSplit(2, 10)(layer, measure, budget, generator=generator(seed + 2)).observation
    estimate = split_lipschitz(layer, measure, seed=seed + 3)
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


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("place", ["tokens", "query", "query_bias", "key", "value", "output", "offset"])
@pytest.mark.parametrize("deterministic", [True, False])
def test_what_is_not_finite_is_unknown_and_raises_nothing(bad, place, deterministic):
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1), samples=1).sample(0)
    if place == "tokens":
        points = measure.points.clone()
        points[0, 0] = bad
        measure = measure.with_points(points)
    else:
        layer = dataclasses.replace(layer, **{place: getattr(layer, place) * bad})
    certificate = certify(layer, measure, Wasserstein(0.01), deterministic=deterministic)
    assert certificate.bound is None
    assert math.isnan(certificate.output_change)
    assert verdict(0.0, 0.0, certificate) is Verdict.UNKNOWN


def test_a_sample_that_is_not_finite_leaves_the_others_alone():
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1), samples=2)
    points = measure.points.clone()
    points[0, 0, 0] = math.nan
    estimate = local_lipschitz(layer, measure.with_points(points))
    assert math.isnan(float(estimate.upper[0]))
    assert math.isfinite(float(estimate.upper[1]))


@given(seed=st.integers(0, 10**6), case=st.sampled_from(MORE_CASES), log_radius=st.floats(-4, 1))
@examples(in_ci=12)
def test_looking_along_the_path_never_costs(seed, case, log_radius):
    """The path's sums are at most eps |D|_ball and eps^2 / 2 H(eps), the values at its end."""
    budget = Wasserstein(10**log_radius)
    layer, measure = random_layer(case, generator(seed)), random_measure(case, generator(seed + 1))
    (end,) = ball_norms(layer, head_norms(layer), measure, (budget,))
    for sample, certificate in enumerate(certify_batch(layer, measure, budget, lipschitz=None)):
        at_end = budget.radius * float(end.closed_form[sample])
        assert certificate.named("local.ball").output_change <= at_end * (1 + 1e-9)
        centre = min(float(end.centre[sample]), float(end.centre_blocks[sample]))
        taylor = budget.radius * centre + budget.radius**2 / 2 * float(end.curvature[sample])
        assert certificate.named("local.second_order_deterministic").output_change <= taylor * (1 + 1e-9)


def test_the_path_by_hand():
    """One token at 0, A = 2, V = 3, radius 1/2, looked at with radii 1/8, 1/4, 3/8, 1/2 (see test_ball.py).

    On the ball of radius r the constant is 3 + (3 r)(2 r) = 3 + 6 r^2 and the curvature 2 (3 r)(2 r)^2 = 24 r^3.
    Mean-value bound: 1/2 (3 + 6/4 (1 + 4 + 9 + 16) / 64) = 1/2 (3 + 45/64). Second order: 3/2 plus 1/4 times the
    curvatures with weights (7, 5, 3, 1)/32: 24/512 (7 * 1 + 5 * 8 + 3 * 27 + 1 * 64) / 32 = 24/512 * 6 = 9/32.
    """
    certificate = certify(scalar_layer(2.0, 3.0), scalar_measure([0.0]), Frobenius(0.5), deterministic=True)
    found = certificate.named
    assert found("local.ball").output_change == pytest.approx((3 + 45 / 64) / 2, rel=1e-5)
    assert found("local.second_order_deterministic").output_change == pytest.approx(3 / 2 + 9 / 128, rel=1e-5)
    assert found("local.closed_form").output_change == pytest.approx(3 / 2)
    assert not found("local.closed_form").applies
    assert found(HULL).output_change == pytest.approx(3 / 2)


def test_second_order_with_confidence_is_the_given_constant_plus_the_same_curvature():
    """|D| = 3.5 instead of the closed form's 3: 1/2 * 1/2 more, with the failure probability that it came with."""
    layer, measure, budget = scalar_layer(2.0, 3.0), one_sample(scalar_measure([0.0])), Frobenius(0.5)
    estimate = dataclasses.replace(
        local_lipschitz(layer, measure), upper=torch.tensor([3.5]).double(), failure_probability=1e-9
    )
    (certificate,) = certify_batch(layer, measure, budget, lipschitz=estimate)
    bound = certificate.named("local.second_order")
    assert bound.output_change == pytest.approx(7 / 4 + 9 / 128, rel=1e-5)
    assert bound.failure_probability == 1e-9


def test_the_hull_in_each_norm_by_hand():
    """x = (0, 1), A = log 3, V = 1: P = (1/2, 1/2) and (1/4, 3/4), farthest values 1/2 and 3/4 from the means.

    Radius 0.1: per token 3/4 + 0.1; Frobenius the root of (1/2 + 0.1)^2 + (3/4 + 0.1)^2; Wasserstein that of half the
    sum, with a reach of 0.1 sqrt(2).
    """
    layer, measure = scalar_layer(math.log(3)), scalar_measure([0.0, 1.0])

    def hull(budget) -> float:
        return certify(layer, measure, budget, deterministic=True).named(HULL).output_change

    far = 0.1 * math.sqrt(2)
    assert hull(PerToken(0.1)) == pytest.approx(0.85)
    assert hull(Frobenius(0.1)) == pytest.approx(math.hypot(0.6, 0.85))
    assert hull(Wasserstein(0.1)) == pytest.approx(math.hypot(0.5 + far, 0.75 + far) / math.sqrt(2))


@pytest.mark.parametrize("unknown", [math.nan])
def test_one_bound_that_is_no_number_leaves_nothing_certified(unknown):
    layer, measure = scalar_layer(2.0), one_sample(scalar_measure([0.0, 1.0]))
    estimate = local_lipschitz(layer, measure)
    broken = dataclasses.replace(estimate, upper=torch.full_like(estimate.upper, unknown))
    assert math.isfinite(certify_batch(layer, measure, Wasserstein(0.1), lipschitz=estimate)[0].output_change)
    (certificate,) = certify_batch(layer, measure, Wasserstein(0.1), lipschitz=broken)
    assert certificate.bound is None
    assert math.isnan(certificate.output_change)

"""The certified radius: sound whatever the certificate looks like, the largest where certificates grow."""

import dataclasses
import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robust_attn.attacks.move import Move
from robust_attn.budget import BUDGETS, Frobenius, Wasserstein
from robust_attn.certificates import radius as radius_search
from robust_attn.certificates.layer import Certificate, certify_batch
from robust_attn.certificates.radius import ACCURACY, CertifiedRadius, certified_radii, certified_radius, largest_radius
from robust_attn.spectral.lipschitz import local_lipschitz
from robust_attn.spectral.norms import head_norms
from robust_attn.types import UserError
from tests.cases import CASES, MORE_CASES, Case, generator, random_layer, random_measure, scalar_layer, scalar_measure

SOME_CASE = {
    "seed": st.integers(0, 10**6),
    "case": st.sampled_from(MORE_CASES),
    "kind": st.sampled_from(sorted(BUDGETS)),
}


def subject(seed: int, case: Case, kind: str, *, length: int = 4, samples: int = 1):
    """A layer, a batched measure and its local constant in the norm of a budget."""
    budget = BUDGETS[kind]
    layer = random_layer(case, generator(seed))
    measure = random_measure(case, generator(seed + 1), length=length, samples=samples)
    weights = budget(1.0).weights(measure)
    return layer, measure, budget, local_lipschitz(layer, measure, weights=weights, seed=seed + 2)


@pytest.mark.parametrize("kind", sorted(BUDGETS))
@pytest.mark.parametrize("tolerance", [1e-6, 0.3, 1e4])
def test_solved_case(kind, tolerance):
    """A = 0, V = 3: every row is 3 times the mean, so radius r gives 3 r in every norm, and tolerance / 3 keeps it."""
    found = certified_radius(scalar_layer(0.0, 3.0), scalar_measure([0.0, 1.0]), BUDGETS[kind], tolerance)
    assert tolerance / 3 * (1 - ACCURACY) <= found.radius <= tolerance / 3
    assert (found.tolerance, found.unbounded) == (tolerance, False)


def test_one_token_is_a_linear_map():
    """n = 1: f(x) = V x with V = 2, whatever A is, so 0.5 is kept up to radius 0.25."""
    found = certified_radius(scalar_layer(5.0, 2.0), scalar_measure([1.5]), Frobenius, 0.5)
    assert 0.25 * (1 - ACCURACY) <= found.radius <= 0.25


@pytest.mark.slow
@settings(max_examples=3)
@given(**SOME_CASE, log_tolerance=st.floats(-5, 2))
def test_certified_there_exceeded_slightly_farther_and_never_reached_by_ascent(seed, case, kind, log_tolerance):
    layer, measure, budget, estimate = subject(seed, case, kind)
    tolerance, norms = 10**log_tolerance, head_norms(layer)
    (found,) = certified_radii(layer, measure, budget, tolerance, lipschitz=estimate, norms=norms)
    there, farther = (
        certify_batch(layer, measure, budget(radius), lipschitz=estimate, norms=norms)[0]
        for radius in (found.radius, found.radius * (1 + 1e-2))
    )
    assert there.output_change <= tolerance < farther.output_change
    assert (there.bound, there.failure_probability) == (found.bound, found.failure_probability)
    assert found.certificates <= 25
    seen = Move(12)(layer, measure, budget(found.radius), generator=generator(seed + 3)).observation
    assert float(seen.output_change - seen.rounding) <= tolerance


@settings(max_examples=6)
@given(**SOME_CASE, log_radius=st.floats(-5, 1.5), growth=st.floats(1e-4, 1.0), length=st.integers(1, 6))
def test_certificates_grow_with_the_radius(seed, case, kind, log_radius, growth, length):  # noqa: PLR0917
    """What makes the radius found the largest one. The margin is the rounding of sums, not a tuned number."""
    layer, measure, budget, estimate = subject(seed, case, kind, length=length)
    norms, radius = head_norms(layer), 10**log_radius
    near, far = (
        certify_batch(layer, measure, budget(r), lipschitz=estimate, norms=norms)
        for r in (radius, radius * (1 + growth))
    )
    for smaller, larger in zip(near, far, strict=True):
        assert larger.output_change >= smaller.output_change * (1 - 1e-11)


@pytest.mark.slow
@settings(max_examples=2)
@given(**SOME_CASE, log_tolerance=st.floats(-4, 1))
def test_radius_scales_with_values_and_with_tokens(seed, case, kind, log_tolerance):
    """V -> 8 V keeps the radius of 8 times the tolerance; X -> 4 X, A -> A / 16 makes f four times itself: 4 radii."""
    case, budget = dataclasses.replace(case, bias=False), BUDGETS[kind]
    layer, measure = random_layer(case, generator(seed)), random_measure(case, generator(seed + 1), samples=1).sample(0)
    steeper = dataclasses.replace(layer, value=8 * layer.value)
    flatter = dataclasses.replace(layer, query=layer.query / 16)
    tolerance = 10**log_tolerance

    def radius(of, at, change):
        return certified_radius(of, at, budget, change, deterministic=True).radius

    base = radius(layer, measure, tolerance)
    assert radius(steeper, measure, 8 * tolerance) == pytest.approx(base, rel=2 * ACCURACY)
    stretched = measure.with_points(4 * measure.points)
    assert radius(flatter, stretched, 4 * tolerance) == pytest.approx(4 * base, rel=2 * ACCURACY)


def test_a_larger_tolerance_has_a_larger_radius():
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1), samples=1).sample(0)
    radii = [certified_radius(layer, measure, Wasserstein, 10.0**k).radius for k in range(-6, 4, 3)]
    assert all(near < far for near, far in itertools.pairwise(radii))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_without_chance_the_radius_is_smaller_and_certain(case):
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1), samples=1).sample(0)
    certain = certified_radius(layer, measure, Wasserstein, 1e-3, deterministic=True)
    usual = certified_radius(layer, measure, Wasserstein, 1e-3)
    assert certain.failure_probability == 0.0
    assert certain.radius <= usual.radius * (1 + ACCURACY)


@pytest.mark.parametrize("kind", sorted(BUDGETS))
def test_samples_do_not_influence_each_other(kind):
    """Padded samples of different length, each with its own entry of the local constant (exact at this size)."""
    layer, measure, budget, estimate = subject(0, Case(masses="padded"), kind, samples=2)
    together = certified_radii(layer, measure, budget, 0.01, lipschitz=estimate)
    alone = [certified_radius(layer, measure.sample(i), budget, 0.01) for i in range(2)]
    assert [found.radius for found in together] == pytest.approx([found.radius for found in alone], rel=1e-9)
    assert len({found.radius for found in together}) == 2


def test_the_local_constant_is_taken_as_given_and_its_probability_carries_over(monkeypatch):
    """One draw for all radii: the search computes no constant itself and states the probability of the one given."""
    layer, measure, budget, estimate = subject(3, Case(), "wasserstein")
    estimate = dataclasses.replace(estimate, failure_probability=0.125)
    monkeypatch.setattr(radius_search, "local_lipschitz", None)
    for found in certified_radii(layer, measure, budget, 1e-4, lipschitz=estimate):
        assert found.bound == "local.second_order"
        assert found.failure_probability == 0.125


def test_a_constant_layer_has_no_end_and_a_nearly_constant_one_has():
    """V = 0 is unbounded; V = 1e-20 keeps 1 up to radius 1e20."""
    still = certified_radius(scalar_layer(2.0, 0.0), scalar_measure([0.0, 1.0]), Wasserstein, 1e-12)
    assert still.unbounded
    assert still.radius == math.inf
    nearly = certified_radius(scalar_layer(0.0, 1e-20), scalar_measure([0.0, 1.0]), Wasserstein, 1.0)
    assert not nearly.unbounded
    assert nearly.radius == pytest.approx(1e20, rel=ACCURACY)


@pytest.mark.parametrize("v", [0.0, 1.0])
def test_certificates_that_are_not_numbers_give_no_radius(v, monkeypatch):
    """Also where all values are zero: a layer is not taken for constant on the word of its norms alone."""
    unknown = (Certificate(None, math.nan, 0.0, ()),)
    monkeypatch.setattr(radius_search, "certify_batch", lambda *_, **__: unknown)
    found = certified_radius(scalar_layer(1.0, v), scalar_measure([0.0, 1.0]), Wasserstein, 0.1)
    assert math.isnan(found.radius)
    assert (found.bound, found.unbounded) == (None, False)


@pytest.mark.parametrize("tolerance", [0.0, -1.0, math.inf, math.nan])
def test_a_tolerance_is_a_finite_number_above_zero(tolerance):
    with pytest.raises(UserError, match="tolerance must be a finite number above zero"):
        certified_radius(scalar_layer(0.0), scalar_measure([0.0]), Wasserstein, tolerance)


def searched(change, *, tolerance: float = 1.0, slope: float = 1.0) -> CertifiedRadius:
    return largest_radius(lambda r: Certificate("x", change(r), 0.0, ()), tolerance, slope=slope)


@pytest.mark.parametrize("slope", [1e-30, 0.01, 1.0, 7.0, 1e30, 0.0, math.nan, math.inf])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda r: r, 1.0),
        (lambda r: r / 3 + 1e6 * r**2, (math.sqrt(1 / 9 + 4e6) - 1 / 3) / 2e6),
        (lambda r: 0.999 + 1e-9 * r, 1e6),
        (lambda r: math.sqrt(r) / 30, 900.0),
        (lambda r: math.expm1(min(r, 600.0)), math.log(2.0)),
        (lambda r: 0.0 if r < 5 else math.inf, 5.0),
        (lambda r: 0.2 * r if r < 3 else math.nan, 3.0),
        (lambda r: min(100 * r, 0.5 + r), 0.5),
    ],
)
def test_the_crossing_is_found_from_any_start(change, expected, slope):
    """Lines, jumps, flat stretches, infinities and gaps, from guesses sixty decades apart."""
    found = searched(change, slope=slope)
    assert expected * (1 - 1e-3) <= found.radius <= expected * (1 + 1e-12)
    assert found.certificates <= 40


def test_a_good_guess_costs_few_certificates():
    """r + 0.1 r^2 = 1: the start 1 is outside, its proportional answer inside, interpolation does the rest."""
    assert searched(lambda r: r + 0.1 * r**2).certificates <= 5


@pytest.mark.parametrize("slope", [0.05, 0.3, 1.0, 4.0])
def test_what_is_returned_was_certified_even_where_certificates_go_up_and_down(slope):
    def wavy(r: float) -> float:
        return r * (1 + 0.9 * math.sin(20 * r))

    found = searched(wavy, slope=slope)
    assert found.radius > 0
    assert wavy(found.radius) <= 1.0


def test_no_certificate_at_any_radius_is_no_radius_and_only_at_zero_is_zero():
    assert math.isnan(searched(lambda _: math.nan).radius)
    assert searched(lambda _: math.nan).bound is None
    assert searched(lambda r: 0.0 if r == 0 else 2.0).radius == 0.0


def test_a_tolerance_that_is_never_passed_ends_at_the_largest_radius_tried():
    found = searched(lambda _: 0.5)
    assert 1e30 < found.radius <= radius_search.LARGEST
    assert not found.unbounded

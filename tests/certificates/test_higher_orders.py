"""The third and the sixth order: no attack exceeds them, when they are asked for, and what they are made of."""

import math
from dataclasses import replace

import pytest
import torch

from robust_attn.attacks.move import Move
from robust_attn.bounds.ball import higher_norms
from robust_attn.bounds.bound import from_output_change
from robust_attn.budget import BUDGETS, Frobenius, Wasserstein
from robust_attn.certificates import higher_orders
from robust_attn.certificates.higher_orders import SIXTH_ORDER, THIRD_ORDER, Orders
from robust_attn.certificates.layer import certify, certify_batch, path_norms
from robust_attn.certificates.sampled_orders import Pairs, SampledOrders
from robust_attn.spectral.lipschitz import local_lipschitz
from robust_attn.spectral.norms import head_norms
from robust_attn.types import Scope
from tests.cases import (
    EVERY_CASE,
    NORM_CASES,
    Case,
    generator,
    random_layer,
    random_measure,
    scalar_layer,
    scalar_measure,
)
from tests.selection import at_first

HUGE = from_output_change("huge", 1e9, 1.0, Scope.BALL)


@pytest.mark.parametrize("case", at_first(EVERY_CASE, 2), ids=str)
@pytest.mark.parametrize("kind", sorted(BUDGETS))
def test_no_ascent_exceeds_it(case, kind):
    g = generator(5)
    layer, measure = random_layer(case, g, scale=0.8), random_measure(case, g, samples=1)
    budget = BUDGETS[kind](0.05)
    certificate = certify(layer, measure, budget, seed=2)
    reached = Move()(layer, measure, budget, generator=g).observation.output_change
    assert certificate.named(THIRD_ORDER).applies == (case.norm == "none")
    for bound in map(certificate.named, (THIRD_ORDER, SIXTH_ORDER)):
        assert not bound.applies or float(reached.max()) <= bound.output_change


def test_it_is_sharper_than_the_second_order_where_that_is_loose():
    g = generator(2)
    layer, measure = random_layer(Case(), g, scale=0.8), random_measure(Case(), g, samples=1)
    certificate = certify(layer, measure, Wasserstein(0.03), seed=7)
    assert certificate.bound == THIRD_ORDER
    assert certificate.output_change < certificate.named("local.second_order").output_change
    assert certificate.failure_probability == pytest.approx(1e-9)  # so small a derivative is decomposed whole
    assert certify(layer, measure, Wasserstein(0.03), seed=7).output_change == certificate.output_change
    assert certify(layer, measure, Wasserstein(0.03), seed=8).output_change != certificate.output_change


def test_it_is_made_of_three_orders(monkeypatch):
    """eps L + eps^2 S / 2 + the integral of (1 - t)^2 / 2 times the third derivative, here 6 at every part of the path.

    With t^3 times 6 on the budget of part t the integral is 6 / 6 = 1.
    """
    g = generator(3)
    layer, measure, eps = random_layer(Case(), g, scale=0.9), random_measure(Case(), g, samples=1), 0.3
    estimate = local_lipschitz(layer, measure, seed=1)
    sampled = SampledOrders(layer, measure, measure.masses, Pairs(64), 1)
    third = [(6e-3 * part**3 * torch.ones(1).double(),) for part in higher_orders.FINE_PATH]
    monkeypatch.setattr(higher_orders, "higher_norms", lambda *_, **__: third)
    monkeypatch.setattr(higher_orders, "SIXTH", replace(higher_orders.SIXTH, worth=math.inf))
    (found,) = certify_batch(layer, measure, Wasserstein(eps), lipschitz=estimate, sampled=sampled)
    expected = eps * float(estimate.upper) + eps**2 * sampled.second(0) / 2 + 1e-3
    assert found.named(THIRD_ORDER).output_change == pytest.approx(expected, rel=1e-9)


def test_it_is_made_of_six_orders(monkeypatch):
    """Orders one to five at the tokens over their factorials, and a sixth derivative of 720e-3 everywhere: 1e-3.

    The third to fifth derivatives are known on no part of the path.
    """
    g = generator(3)
    layer, measure, eps = random_layer(Case(), g, scale=0.9), random_measure(Case(), g, samples=1), 0.3
    estimate = local_lipschitz(layer, measure, seed=1)
    sampled = SampledOrders(layer, measure, measure.masses, Pairs(64), 1)
    nothing = [torch.full((1,), math.inf, dtype=torch.float64)] * 3
    monkeypatch.setattr(
        higher_orders,
        "higher_norms",
        lambda *args, **_: [
            (*nothing[: len(args[-1]) - 1], 0.72 * part**6 * torch.ones(1).double()) for part in higher_orders.FINE_PATH
        ],
    )
    monkeypatch.setattr(higher_orders, "THIRD", replace(higher_orders.THIRD, worth=math.inf))
    monkeypatch.setattr(higher_orders, "SIXTH", replace(higher_orders.SIXTH, worth=0.0))
    unlimited = [
        replace(ball, closed_form=nothing[0], curvature=nothing[0])
        for ball in path_norms(layer, head_norms(layer), measure, Wasserstein(eps))
    ]
    asked = Orders(layer, head_norms(layer), measure, Wasserstein(eps), estimate, unlimited, sampled, None, None)
    ((*_, bound),) = higher_orders.higher_orders(asked, [(HUGE,)], doubtful=False)
    uppers = enumerate(sampled.up_to_fifth(0), start=2)
    expected = eps * float(estimate.upper) + sum(eps**k * upper / math.factorial(k) for k, upper in uppers) + 1e-3
    assert bound.name == SIXTH_ORDER
    assert bound.output_change == pytest.approx(expected, rel=1e-9)


def test_a_part_of_the_path_has_the_slopes_of_the_ball_that_it_is_in():
    """Eighths in the balls of quarters: the first two in that of a quarter, the next two in that of a half."""
    g = generator(4)
    layer, measure, budget = random_layer(Case(), g), random_measure(Case(), g), Frobenius(0.4)
    norms, estimate = head_norms(layer), local_lipschitz(layer, measure, weights=budget.weights(measure), seed=0)
    path = path_norms(layer, norms, measure, budget)
    found = higher_orders._parts(Orders(layer, norms, measure, budget, estimate, path, None, None, None), (3, 6))
    for sample, parts in enumerate(found):
        for index, part in enumerate(parts):
            ball, inner = path[index // 2], Frobenius(0.4 * part.end)
            ((third, sixth),) = higher_norms(layer, norms, measure, [inner], (3, 6))
            slope, curvature = 0.4 * float(ball.closed_form[sample]), 0.16 * float(ball.curvature[sample])
            higher = (float(third[sample]) / part.end**3, float(sixth[sample]) / part.end**6)
            assert part.limits == pytest.approx((slope, curvature, *higher))


@pytest.mark.parametrize("radius", [0.1, 0.4, 1.0])
def test_no_bound_that_it_is_made_of_is_smaller(radius):
    """Neither the second order nor the mean-value bound, whatever the radius: where it says nothing, they say it."""
    g = generator(6)
    layer, measure = random_layer(Case(), g, scale=0.8), random_measure(Case(), g, samples=1)
    certificate = certify(layer, measure, Frobenius(radius), seed=3)
    made_of = [certificate.named(name).output_change for name in ("local.second_order", "local.ball")]
    for bound in map(certificate.named, (THIRD_ORDER, SIXTH_ORDER)):
        if bound.applies:
            assert bound.output_change <= min(made_of) * (1 + 1e-9)
            made_of.append(bound.output_change)
    reached = Move()(layer, measure, Frobenius(radius), generator=g).observation.output_change
    assert float(reached.max()) <= certificate.output_change


def test_it_is_not_asked_for_where_it_cannot_help():
    flat = certify(scalar_layer(0.0, 3.0), scalar_measure([0.0, 1.0]), Frobenius(0.1))
    assert not flat.named(THIRD_ORDER).applies
    g = generator(0)
    layer, measure = random_layer(Case(), g), random_measure(Case(), g)
    assert not certify(layer, measure, Wasserstein(1e-7)).named(THIRD_ORDER).applies
    assert "too large" in (certify(layer, measure, Wasserstein(1e3)).named(THIRD_ORDER).why_not or "")
    for without in ({"pairs": 0}, {"deterministic": True}):
        bounds = certify(layer, measure, Wasserstein(0.1), **without).bounds
        assert not {THIRD_ORDER, SIXTH_ORDER} & {bound.name for bound in bounds}


def test_the_sixth_order_is_sharper_where_the_third_is_loose_and_not_asked_for_elsewhere():
    g = generator(2)
    layer, measure = random_layer(Case(), g, scale=0.8), random_measure(Case(), g, samples=1)
    near, far = (certify(layer, measure, Wasserstein(radius), seed=7) for radius in (0.01, 0.05))
    assert "1.3 times the first order" in (near.named(SIXTH_ORDER).why_not or "")
    assert far.bound == SIXTH_ORDER
    assert far.output_change < far.named(THIRD_ORDER).output_change
    assert far.failure_probability == far.named(THIRD_ORDER).failure_probability


def test_what_is_not_a_number_is_not_used(monkeypatch):
    g = generator(1)
    layer, measure = random_layer(Case(), g, scale=0.9), random_measure(Case(), g, samples=1)
    for method, value in (("second", math.nan), ("up_to_fifth", (1.0, 1.0, math.nan, 1.0))):
        monkeypatch.setattr(SampledOrders, method, lambda *_, value=value: value)
    certificate = certify(layer, measure, Wasserstein(0.05))
    assert not any(certificate.named(name).applies for name in (THIRD_ORDER, SIXTH_ORDER))
    assert math.isfinite(certificate.output_change)


def test_norms_of_queries_and_keys_are_said_to_be_in_the_way():
    g = generator(0)
    layer, measure = random_layer(NORM_CASES[0], g), random_measure(Case(), g)
    assert "normalised" in (certify(layer, measure, Wasserstein(0.1)).named(THIRD_ORDER).why_not or "")

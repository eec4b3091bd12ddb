"""Upper values of derivatives from Gaussian tuples: above what ascent finds, and no surer than stated."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from robust_attn.attention.derivatives import Derivatives
from robust_attn.attention.measure import stack
from robust_attn.certificates import sampled_orders
from robust_attn.certificates.sampled_orders import FIVE, PAIR, Pairs, SampledOrders, order_uppers
from tests.cases import (
    ADDED_CASES,
    MORE_CASES,
    NORM_CASES,
    Case,
    generator,
    random_layer,
    random_measure,
    scalar_layer,
    scalar_measure,
)
from tests.selection import at_first

FEW = Pairs(64)


def climbed(layer, measure, weights, order: int) -> float:
    """The largest |D^k f [d, .., d]| / |d|^k that gradients find, in the norm of the weights."""
    derivatives, root, best = Derivatives.at(layer, measure), weights.sqrt()[:, None], 0.0
    for seed in range(3):
        d = torch.randn(1, *measure.points.shape, generator=generator(seed), dtype=torch.float64)
        for _ in range(40):
            d = (d / d.norm()).requires_grad_(True)
            value = (derivatives.along(*[d / root] * order).value * root).norm()
            (d,) = torch.autograd.grad(value, d)
        best = max(best, float(value.detach()))
    return best


def uppers(layer, measure, choices, pairs=FEW, seed=1):
    derivatives = Derivatives.at(layer, measure)
    return order_uppers(derivatives, measure.masses, choices, pairs=pairs, generator=np.random.default_rng(seed))


@pytest.mark.parametrize("case", at_first([c for c in MORE_CASES + ADDED_CASES if c.masses != "padded"], 2), ids=str)
def test_no_ascent_exceeds_the_upper_value(case):
    g = generator(3)
    layer, measure = random_layer(case, g, scale=0.8), random_measure(case, g, samples=1).sample(0)
    for order, found in uppers(layer, measure, FIVE).items():
        reached = climbed(layer, measure, measure.masses, order)
        assert 0 < reached <= found <= 10 ** (order + 1) * reached


@pytest.mark.parametrize("order", [2, 3])
def test_it_fails_no_more_often_than_stated(order):
    """Forms of rank one, for which the factor is exact: f_0 = P_01 of one token that moves; stated 0.5, 400 draws.

    Failing means that the upper value is below the largest value, found by ascent.
    """
    layer, measure = scalar_layer(0.9), scalar_measure([0.0, 1.0])
    exact, choices = climbed(layer, measure, measure.masses, order), {order: [tuple(range(order))]}
    found = [uppers(layer, measure, choices, Pairs(8, 0.5), seed)[order] for seed in range(400)]
    failed = sum(value < exact for value in found) / len(found)
    assert failed <= 0.5 + 3 * math.sqrt(0.25 / 400)


def test_no_two_choices_of_an_order_share_a_displacement():
    """Else what they are taken along would not be independent."""
    for choices in (PAIR, FIVE):
        for order, chosen in choices.items():
            places = [place for each in chosen for place in each]
            assert len(places) == len(set(places)) == order * len(chosen)


def test_two_pairs_of_a_tuple_count_twice(monkeypatch):
    """Each order has its part of the failure probability, and as many rows as choices times tuples."""
    g, asked = generator(2), []
    layer, measure = random_layer(Case(), g), random_measure(Case(), g, samples=1).sample(0)
    monkeypatch.setattr(sampled_orders, "chain_factor", lambda *of: asked.append(of) or 1.0)
    uppers(layer, measure, FIVE, Pairs(16, 4e-6))
    assert asked == [(32, 2, 1e-6), (16, 3, 1e-6), (16, 4, 1e-6), (16, 5, 1e-6)]


def test_padding_neither_moves_nor_counts():
    g = generator(0)
    layer, measure = random_layer(Case(), g), random_measure(Case(), g, samples=1).sample(0)
    longer = type(measure)(
        torch.cat((measure.points, torch.ones(2, 5).double())),
        torch.cat((measure.masses, torch.zeros(2).double())),
        torch.arange(6),
    )
    values = [
        SampledOrders(layer, stack([tokens]), tokens.masses[None], FEW, 1).up_to_fifth(0)
        for tokens in (measure, longer)
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-9)


def test_it_grows_with_the_values_in_proportion():
    g = generator(1)
    layer, measure = random_layer(Case(), g), random_measure(Case(), g, samples=1).sample(0)
    one, three = (uppers(each, measure, FIVE) for each in (layer, replace(layer, output=3 * layer.output)))
    assert list(three.values()) == pytest.approx([3 * value for value in one.values()], rel=1e-9)


def test_a_batch_shares_the_probability_and_each_sample_is_drawn_once(monkeypatch):
    """Half of it is that of the pairs, half that of the tuples of five."""
    g, asked = generator(2), []
    layer, measure = random_layer(Case(), g), random_measure(Case(), g, samples=2)

    def uppers_once(_derivatives, _weights, choices, *, pairs, **_):
        asked.append((choices, pairs))
        return {order: 10.0 * order if choices is FIVE else 7.0 for order in choices}

    monkeypatch.setattr(sampled_orders, "order_uppers", uppers_once)
    orders = SampledOrders(layer, measure, measure.masses, Pairs(64, 4e-6), 5)
    assert orders.second(1) == orders.second(1) == orders.alone(1).second(0) == 7.0
    assert orders.up_to_fifth(1) == orders.up_to_fifth(1) == (7.0, 30.0, 40.0, 50.0)
    assert asked == [(PAIR, Pairs(64, 1e-6)), (FIVE, Pairs(64, 1e-6))]


def test_pairs_do_not_depend_on_what_fits_into_the_cache(monkeypatch):
    g = generator(4)
    layer, measure = random_layer(Case(), g), random_measure(Case(), g)
    found = []
    for size in (1, 2**17):
        monkeypatch.setattr(sampled_orders, "CHUNK_ELEMENTS", 40 * size)
        found.append(SampledOrders(layer, measure, measure.masses, FEW, 5).second(0))
    assert found[0] == pytest.approx(
        found[1], rel=1e-7
    )  # what rounding is allowed depends on who is looked at together


def test_what_it_says_nothing_about():
    g = generator(0)
    normed, measure = random_layer(NORM_CASES[0], g), random_measure(Case(), g)
    assert "normalised" in SampledOrders(normed, measure, measure.masses, FEW, 0).refusal(PAIR)
    many = SampledOrders(random_layer(Case(), g), measure, measure.masses, Pairs(10**6), 0)
    assert "certificate.pairs" in many.refusal(PAIR)
    assert replace(many, pairs=Pairs(10**6, most_entries=1e9)).refusal(PAIR) is None


def test_tuples_of_five_leave_five_times_as_many_results():
    """4 tokens of 5 coordinates: 2e7 tuples have 4e8 entries each time, and 2e9 of all choices together."""
    g = generator(0)
    layer, measure = random_layer(Case(), g), random_measure(Case(), g)
    orders = SampledOrders(layer, measure, measure.masses, Pairs(2 * 10**7, most_entries=1e9), 0)
    assert orders.refusal(PAIR) is None
    assert "too many" in orders.refusal(FIVE)

"""A path part by part: integrals of (1 - t)^k over its parts, and several orders put together along it."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.budget import Wasserstein
from robust_attn.certificates.path import FINE_PATH, PATH, Part, along_path, change_along, path_mean
from tests.cases import generator


def test_a_constant_is_integrated_exactly():
    """1, 1/2 and 1/6."""
    assert [path_mean([1.0] * 4, order) for order in (1, 2, 3)] == pytest.approx([1, 1 / 2, 1 / 6])


def test_shares_by_hand():
    """What counts up to a quarter of the way alone: 1/4, (1 - 9/16) / 2 = 7/32 and (1 - 27/64) / 6 = 37/384."""
    first = [1.0, 0.0, 0.0, 0.0]
    assert [path_mean(first, order) for order in (1, 2, 3)] == pytest.approx([1 / 4, 7 / 32, 37 / 384])


def test_budgets_grow_to_the_whole_one():
    assert [budget.radius for budget in along_path(Wasserstein(0.2))] == [0.2 * part for part in PATH]


def unlimited(thirds):
    """Parts of the fine path of which only third derivatives are known."""
    return [Part(end, (math.inf, math.inf, third)) for end, third in zip(FINE_PATH, thirds, strict=True)]


def test_three_orders_where_nothing_else_is_known():
    """3 + 4/2 + 6/6 = 6; where the third derivative ends after an eighth of the way, 6 * 169/3072 in place of 1.

    As (1 - (7/8)^3) / 6 = 169/3072.
    """
    assert change_along(unlimited([6.0] * 8), [3.0, 4.0]) == pytest.approx(6.0)
    first = unlimited([6.0] + [0.0] * 7)
    assert change_along(first, [3.0, 4.0]) == pytest.approx(5 + 6 * 169 / 3072)


def test_what_is_known_of_a_part_by_hand():
    """Slope 1 and curvature 0 at the start; f''' <= 24 and f'' <= 2 on the first half, |f'| <= 2 on the second.

    First half: the integral of 24 t is 3, that of 2 is 1; that of 24 t (1/2 - t) is 1/2, that of 2 (1/2 - t) is 1/4. So
    the change is at most 1/2 + 1/4 and the slope 1 + 1. Second half: 2 * 1/2, and as much where nothing is known but
    that f'' = 0. Together 7/4.

    With |f'| <= 1.2 on the first half, and f'' <= 2 on both: 1.2 * 1/2, and 1.2 * 1/2 + 2/8 on the second.
    """
    parts = [Part(0.5, (math.inf, 2.0, 24.0)), Part(1.0, (2.0, math.inf, math.inf))]
    assert change_along(parts, [1.0, 0.0]) == pytest.approx(7 / 4)
    straight = [parts[0], Part(1.0, (math.inf, 0.0, math.inf))]
    assert change_along(straight, [1.0, 0.0]) == pytest.approx(7 / 4)
    assert change_along([parts[0]], [1.0, 0.0]) == pytest.approx(3 / 4)
    slower = [Part(0.5, (1.2, 2.0, 24.0)), Part(1.0, (math.inf, 2.0, 24.0))]
    assert change_along(slower, [1.0, 0.0]) == pytest.approx(0.6 + (0.6 + 0.25))


def test_a_curvature_that_is_known_at_the_start_is_not_forgotten():
    """f''(0) = 1, f''' = 2 on the first half and 0 on the second: f'' = 1 + 2 t, then 2.

    The change is 1/8 + 2/48, with the slope 1/2 + 1/4 then, and 3/8 + 2/8 on the second half.
    """
    parts = [Part(0.5, (math.inf, math.inf, 2.0)), Part(1.0, (math.inf, math.inf, 0.0))]
    assert change_along(parts, [0.0, 1.0]) == pytest.approx(1 / 8 + 1 / 24 + 3 / 8 + 1 / 4)


def derivative(coefficients, order, t):
    """Of the polynomial with these coefficients, at t."""
    powers = range(order, len(coefficients))
    return sum(coefficients[k] * math.perm(k, order) * t ** (k - order) for k in powers)


def part_of(coefficients, start, end, orders):
    """Upper values of so many derivatives, from a grid and from what the next derivative adds between its points."""
    t = torch.linspace(start, end, 400, dtype=torch.float64)
    sizes = [float(derivative(coefficients, order, t).abs().max()) for order in range(1, orders + 2)]
    step = (end - start) / 399
    return Part(end, tuple(size * 1.01 + next_size * step for size, next_size in itertools.pairwise(sizes)))


@given(seed=st.integers(0, 10**6), count=st.integers(1, 6), orders=st.integers(1, 6))
def test_no_function_changes_by_more(seed, count, orders):
    """Polynomials whose last bounded derivative is a line: no grid misses its largest value."""
    draw = generator(seed)
    scales = 3.0 ** torch.randn(orders + 2, generator=draw, dtype=torch.float64)
    coefficients = scales * torch.randn(orders + 2, generator=draw, dtype=torch.float64)
    ends = [(index + 1) / count for index in range(count)]
    parts = [part_of(coefficients, *each, orders) for each in itertools.pairwise((0.0, *ends))]
    known = [abs(float(derivative(coefficients, order, torch.zeros(())))) for order in range(1, orders)]
    change = abs(float(coefficients[1:].sum()))
    assert change <= change_along(parts, known) * (1 + 1e-9)


def test_six_orders_where_nothing_else_is_known():
    """1 + 2/2 + 6/6 + 24/24 + 120/120 + 720/720."""
    nothing = (math.inf,) * 5
    parts = [Part(end, (*nothing, 720.0)) for end in FINE_PATH]
    assert change_along(parts, [1.0, 2.0, 6.0, 24.0, 120.0]) == pytest.approx(6.0)


def test_what_is_not_a_number_stays_unknown():
    known = Part(1.0, (1.0, 1.0, 1.0))
    for place in range(3):
        broken = Part(1.0, tuple(math.nan if index == place else 1.0 for index in range(3)))
        assert math.isnan(change_along([known, broken], [1.0, 1.0]))
    assert math.isnan(change_along([known], [math.nan, 1.0]))
    assert math.isnan(change_along([known], [1.0, math.nan]))
    assert change_along([known], [math.inf, math.inf]) == 1.0

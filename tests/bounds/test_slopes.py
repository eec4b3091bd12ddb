import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.bounds.ball import ball_norms
from robust_attn.bounds.interval import Ball, ball_of, inflated
from robust_attn.bounds.rows import row_blocks
from robust_attn.bounds.slopes import Slopes, block_slope, column_slope, slopes_on
from robust_attn.budget import BUDGETS, Frobenius
from robust_attn.spectral.lipschitz import local_lipschitz
from robust_attn.spectral.norms import head_norms
from tests.cases import (
    CASES,
    MORE_CASES,
    generator,
    one_sample,
    random_layer,
    random_measure,
    scalar_layer,
    scalar_measure,
)


def plain_ball(length: int) -> Ball:
    ones = torch.ones(1, length, dtype=torch.float64)
    return Ball(0.0, ones, ones, torch.zeros_like(ones))


def slopes(columns, queries) -> Slopes:
    matrix = torch.tensor([columns], dtype=torch.float64)
    return Slopes(matrix, 100 * matrix, matrix, matrix, torch.tensor([queries], dtype=torch.float64))


def test_columns_by_hand():
    """Columns (1 + 3, 2 + 3): the largest is 5; the query part adds its largest block, 7."""
    assert float(column_slope(plain_ball(2), slopes([[1.0, 2.0], [3.0, 3.0]], [7.0, 4.0]))) == pytest.approx(
        math.sqrt(5) + 7
    )


def test_blocks_by_hand():
    """Blocks [[1, 2], [2, 1]] and queries 1: [[2, 2], [2, 2]] has norm 4."""
    assert float(block_slope(plain_ball(2), slopes([[1.0, 2.0], [2.0, 1.0]], [1.0, 1.0]))) == pytest.approx(4.0)


def test_blocks_that_are_not_finite_promise_nothing():
    assert math.isinf(float(block_slope(plain_ball(2), slopes([[math.inf, 2.0], [2.0, 1.0]], [1.0, 1.0]))))


def test_block_norms_of_two_scalar_tokens_are_exact_at_the_tokens():
    """n = 1: the map is V x, so both constants are |V|."""
    layer, measure = scalar_layer(-8.0, 3.0), one_sample(scalar_measure([0.7]))
    (norms,) = ball_norms(layer, head_norms(layer), measure, (Frobenius(0.0),))
    assert float(norms.centre) == pytest.approx(3.0)
    assert float(norms.centre_blocks) == pytest.approx(3.0)


@given(seed=st.integers(0, 10**6), case=st.sampled_from(MORE_CASES), kind=st.sampled_from(sorted(BUDGETS)))
def test_both_constants_at_the_tokens_dominate_the_exact_one(seed, case, kind):
    layer, measure = random_layer(case, generator(seed)), random_measure(case, generator(seed + 1))
    budget = BUDGETS[kind](0.0)
    (norms,) = ball_norms(layer, head_norms(layer), measure, (budget,))
    exact = local_lipschitz(layer, measure, weights=budget.weights(measure)).lower
    assert (exact <= norms.centre * (1 + 1e-9)).all()
    assert (exact <= norms.centre_blocks * (1 + 1e-9)).all()


@given(seed=st.integers(0, 10**6), factor=st.floats(0.1, 10))
def test_values_scale_the_constants(seed, factor):
    """V -> c V multiplies every constant by c; the curvature up to ties between equally good ways to hold a row."""
    layer, measure = random_layer(CASES[0], generator(seed)), random_measure(CASES[0], generator(seed + 1))
    scaled = replace(layer, output=layer.output * factor)
    (before,) = ball_norms(layer, head_norms(layer), measure, (Frobenius(0.1),))
    (after,) = ball_norms(scaled, head_norms(scaled), measure, (Frobenius(0.1),))
    for name in ("centre", "centre_blocks", "closed_form"):
        assert torch.allclose(getattr(after, name), factor * getattr(before, name), rtol=1e-8)
    assert torch.allclose(after.curvature, factor * before.curvature, rtol=1e-2)


def test_the_cross_term_stays_with_a_rotation_by_hand():
    """x = (0, 1), A = k = log 3, V = 1: row 1 has P = (1/4, 3/4), deviation sqrt(3)/4, key slope k.

    Its square is 1 + 3/16 k^2 where the cross term vanishes and (1 + sqrt(3)/4 k)^2 where it does not.
    """
    layer, measure, k = scalar_layer(math.log(3)), one_sample(scalar_measure([0.0, 1.0])), math.log(3)
    (data,) = row_blocks(layer, measure)
    norms = head_norms(layer)
    at = inflated(norms, ball_of(measure, Frobenius(0.0)), data)
    plain, turned = (slopes_on(norms, rotary, at, at.ceiling[:, 0]).columns[0, 1] for rotary in (False, True))
    assert plain.tolist() == pytest.approx([(1 + 3 / 16 * k**2) * p for p in (1 / 4, 3 / 4)])
    assert turned.tolist() == pytest.approx([(1 + math.sqrt(3) / 4 * k) ** 2 * p for p in (1 / 4, 3 / 4)])

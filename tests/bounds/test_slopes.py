import math

import pytest
import torch

from robust_attn.bounds.ball import ball_norms
from robust_attn.bounds.bound import at_tokens, from_output_change
from robust_attn.bounds.interval import Ball, ball_of, inflated
from robust_attn.bounds.rows import row_blocks
from robust_attn.bounds.slopes import Slopes, block_slope, column_slope, slopes_on
from robust_attn.budget import Frobenius
from robust_attn.spectral.norms import head_norms
from robust_attn.types import Scope
from tests.bounds.laws import ConstantLaws
from tests.cases import (
    one_sample,
    scalar_layer,
    scalar_measure,
)


class TestConstantsAtTheTokens(ConstantLaws):
    names = growing = frozenset({"local.closed_form", "local.block_norm"})

    def promised(self, layer, sample, budget):
        (norms,) = ball_norms(layer, head_norms(layer), one_sample(sample), (budget,))
        change = budget.hilbert_radius(sample)
        found = {"local.closed_form": norms.centre, "local.block_norm": norms.centre_blocks}
        return [
            at_tokens(from_output_change(name, change * float(x), budget.radius, Scope.LOCAL))
            for name, x in found.items()
        ]


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


def test_the_cross_term_stays_with_a_rotation_by_hand():
    """x = (0, 1), A = k = log 3, V = 1: row 1 has P = (1/4, 3/4), deviation sqrt(3)/4, key slope k.

    Its square is 1 + 3/16 k^2 where the cross term vanishes and (1 + sqrt(3)/4 k)^2 where it does not.
    """
    layer, measure, k = scalar_layer(math.log(3)), one_sample(scalar_measure([0.0, 1.0])), math.log(3)
    (data,) = row_blocks(layer, measure)
    norms = head_norms(layer)
    at = inflated(norms, ball_of(measure, Frobenius(0.0)), data)
    plain, turned = (slopes_on(norms, even, at, at.ceiling[:, 0]).columns[0, 1] for even in (True, False))
    assert plain.tolist() == pytest.approx([(1 + 3 / 16 * k**2) * p for p in (1 / 4, 3 / 4)])
    assert turned.tolist() == pytest.approx([(1 + math.sqrt(3) / 4 * k) ** 2 * p for p in (1 / 4, 3 / 4)])

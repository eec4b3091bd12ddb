"""Rows of a quadratic map put together: the largest value on a simplex, and column norms."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.bounds.interval import ball_of
from robust_attn.bounds.together import QuadraticRows, largest_value, on_simplex
from robust_attn.budget import Frobenius
from tests.cases import generator, one_sample, scalar_measure

NOTHING = torch.zeros(1, 2, 2).double()


def rows(pairs, *, own=(0.0, 0.0), cross=(0.0, 0.0), matrix=NOTHING) -> QuadraticRows:
    return QuadraticRows(pairs, torch.tensor([own]).double(), torch.tensor([cross]).double(), matrix)


def value(found: QuadraticRows) -> float:
    return float(largest_value(ball_of(one_sample(scalar_measure([0.0, 1.0])), Frobenius(1.0)), found))


@given(seed=st.integers(0, 10**6), length=st.integers(1, 6), size=st.floats(0, 10))
def test_no_point_of_the_simplex_exceeds_the_bound(seed, length, size):
    g = generator(seed)
    linear, form = (torch.rand(*shape, generator=g).double() for shape in ((length,), (length, length)))
    form = size * (form + form.T) * (torch.rand(length, length, generator=g) < 0.5)
    form = (form + form.T) / 2
    points = (4 * torch.randn(200, length, generator=g).double()).softmax(-1)
    points = torch.cat((points, torch.eye(length).double(), torch.full((1, length), 1 / length).double()))
    found = points @ linear + torch.einsum("pi,ij,pj->p", points, form, points).sqrt()
    assert float(found.max()) <= float(on_simplex(linear, form)) * (1 + 1e-12)


def test_the_simplex_by_hand():
    """l = (1, 0), M = 1 beside the diagonal: t/2 + max(1, 1/2 + 1/(2t)) is 3/2 at t = 1. Without l: 1/2 + 1/2 = 1.

    Without M the largest entry of l.
    """
    form = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).double()
    assert float(on_simplex(torch.tensor([1.0, 0.0]).double(), form)) == pytest.approx(1.5)
    assert float(on_simplex(torch.zeros(2).double(), form)) == pytest.approx(1.0)
    assert float(on_simplex(torch.tensor([1.0, 3.0]).double(), 0 * form)) == 3.0


def test_column_norms_by_hand():
    """Columns (3, 4) and (0, 0): 5, attained by the whole budget on the first token; rows would say 4.

    With own parts (1, 0) the column is (4, 4).
    """
    pairs = torch.tensor([[[3.0, 0.0], [4.0, 0.0]]]).double()
    assert value(rows(pairs)) == pytest.approx(5.0)
    assert value(rows(pairs, own=(1.0, 0.0))) == pytest.approx(32**0.5)


def test_a_mixed_part_by_hand():
    """|d_1| (|d_2|^2)^{1/2} in row 1, C = 1 and k = (0, 1): at most 1/2; M_12 = 1 and symmetric 1/2, so sqrt(1/2)."""
    matrix = torch.tensor([[[0.0, 0.5], [0.0, 0.0]]]).double()
    assert 0.5 <= value(rows(NOTHING, cross=(1.0, 0.0), matrix=matrix)) <= 0.5**0.5 + 1e-12


def test_three_rows_that_mix_with_all_others_by_hand():
    """|d_i| (sum of the others' |d_j|^2)^{1/2} in every row: equal shares give (3 * 1/3 * 2/3)^{1/2} = 0.816.

    C = 1, M = 1 beside the diagonal: at most sqrt(1) = 1.
    """
    others = (torch.ones(1, 3, 3) - torch.eye(3)).double()
    found = QuadraticRows(0 * others, torch.zeros(1, 3).double(), torch.ones(1, 3).double(), others / 2)
    ball = ball_of(one_sample(scalar_measure([0.0, 1.0, 2.0])), Frobenius(1.0))
    assert (2 / 3) ** 0.5 <= float(largest_value(ball, found)) <= 1 + 1e-12


@given(seed=st.integers(0, 10**6), length=st.integers(1, 5))
def test_no_displacement_exceeds_the_rows_put_together(seed, length):
    """One mixed term in each row, with its coefficient and kernel."""
    g = generator(seed)
    measure = one_sample(scalar_measure(list(range(length))))
    ball = ball_of(measure, Frobenius(1.0))
    pairs, kernel = (torch.rand(1, length, length, generator=g).double() for _ in range(2))
    own, coefficient = (torch.rand(1, length, generator=g).double() for _ in range(2))
    beta = kernel.amax(-1).sqrt()
    found = largest_value(
        ball, QuadraticRows(pairs, own, coefficient * beta, (coefficient / (2 * beta))[..., None] * kernel)
    )
    squares = torch.randn(300, length, generator=g).double().mul(2).softmax(-1)
    mixed = coefficient * squares.sqrt() * (squares @ kernel[0].T).sqrt()
    change = (squares @ pairs[0].T + own * squares + mixed).norm(dim=-1)
    assert float(change.max()) <= float(found) * (1 + 1e-12)

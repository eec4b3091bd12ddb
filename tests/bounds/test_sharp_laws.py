"""The sharper global bounds again: domination wherever they apply, ascent, laws and exact cases (see test_sharp.py)."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.attacks.worst_case import WorstCaseSearch
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.bounds import sharp
from robust_attn.bounds.setting import BallSetting
from robust_attn.budget import Frobenius, PerToken
from robust_attn.spectral.norms import head_norms
from tests.bounds.balls import single_head_ball
from tests.bounds.laws import exact_constant
from tests.cases import generator


def constant(bound) -> float:
    return 10**bound.log10


@pytest.mark.parametrize("n", [1, 4])
def test_half_square_without_interaction(n):
    """A = 0: the map is V times the mean, of norm |V|; the bound says sqrt(n) |V|, exact for one token alone."""
    assert constant(sharp.half_square_upper(single_head_ball(0.0, length=n, value=3.0))) == pytest.approx(
        3 * math.sqrt(n)
    )


def test_half_square_is_refused_where_it_is_not_stated():
    assert "equal mass" in sharp.half_square_upper(single_head_ball(1.0, length=2, masses=[0.9, 0.1])).why_not
    assert "biases" in sharp.half_square_upper(single_head_ball(1.0, length=2, bias=0.1)).why_not


@given(a=st.floats(0.1, 3), n=st.integers(1, 9))
def test_the_number_of_tokens_plays_no_part_in_token_max(a, n):
    few, more = (single_head_ball(a, length=length, budget=PerToken(1.0)) for length in (n, n + 1))
    assert sharp.token_max_upper(more).log10 == pytest.approx(sharp.token_max_upper(few).log10, abs=1e-9)


@pytest.mark.parametrize("mask", list(Mask))
def test_token_max_without_interaction_is_exact(mask):
    """A = 0: every output is V times a mean, so no row moves further than |V| max_j |dx_j|, and equal moves do it."""
    ball = single_head_ball(0.0, length=5, value=3.0, mask=mask, budget=PerToken(1.0))
    assert constant(sharp.token_max_upper(ball)) == pytest.approx(3.0)


@pytest.mark.parametrize("mask", list(Mask))
@pytest.mark.parametrize("a", [-2.0, 2.0])
def test_ascent_on_the_largest_row_does_not_exceed_token_max(mask, a):
    """In one dimension the row sum sum_j |D_ij| is the constant of row i in the largest norm; Adam over four tokens.

    At |A| R^2 = 2 the bound is 1 + 2 + 2 = 5, and more than a third of it is found.
    """
    layer = AttentionLayer.single_head(torch.tensor([[a]]).double(), torch.eye(1).double(), mask=mask)
    free = torch.tensor([[1.0], [-0.9], [0.8], [-0.5]]).double().requires_grad_(True)
    optimizer, best = torch.optim.Adam([free], lr=0.05), 0.0
    for _ in range(80):
        measure = TokenMeasure.uniform(free / free.abs().clamp_min(1.0))
        value = layer.linearize(measure).dense().abs().sum(-1).max()
        best = max(best, float(value.detach()))
        optimizer.zero_grad()
        (-value).backward()
        optimizer.step()
    bound = constant(sharp.token_max_upper(single_head_ball(a, length=4, mask=mask, budget=PerToken(1.0))))
    assert bound == pytest.approx(5.0)
    assert bound / 3 <= best <= bound


@pytest.mark.parametrize("seed", range(2))
def test_ascent_from_random_starts_reaches_the_lower_bounds_and_stays_below_the_upper_ones(seed):
    A = 1.5 * torch.randn(2, 2, generator=generator(seed), dtype=torch.float64)
    V = torch.eye(2).double()
    layer = AttentionLayer.single_head(A, V)
    worst = WorstCaseSearch(1.0, steps=40, restarts=2)(layer, 6, generator=generator(1))
    ball = BallSetting.of(layer, head_norms(layer), TokenMeasure.uniform(worst.points), Frobenius(1.0), radius=1.0)
    assert worst.constant >= constant(sharp.one_key_lower(A, radius=1.0, length=6))
    assert worst.constant >= constant(sharp.two_key_lower(A, V, radius=1.0, length=6))
    assert worst.constant <= constant(sharp.unified_upper(ball))


@pytest.mark.parametrize("n", [2, 5, 17])
def test_the_one_key_bound_is_exact_where_the_key_draws_everything(n):
    """A = -1, R^2 = 40: P = 1 up to e^-80, so the bound is sqrt(n - 1), which is the constant at its tokens."""
    A = -torch.eye(1).double()
    measure = TokenMeasure.uniform(sharp.one_key_tokens(A, radius=math.sqrt(40), length=n))
    attained = exact_constant(AttentionLayer.single_head(A, -A), measure, torch.ones(n).double())
    assert attained == pytest.approx(math.sqrt(n - 1))
    assert constant(sharp.one_key_lower(A, radius=math.sqrt(40), length=n)) == pytest.approx(math.sqrt(n - 1))

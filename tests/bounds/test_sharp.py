import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.attacks.worst_case import WorstCaseSearch
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.bounds import paper, sharp
from robust_attn.bounds.setting import BallSetting
from robust_attn.budget import Frobenius, PerToken
from robust_attn.spectral.norms import head_norms
from tests.bounds.balls import single_head_ball
from tests.cases import CASES, generator, random_layer, random_measure


def constant(bound) -> float:
    return 10**bound.log10


def test_unified_by_hand():
    """A = log 2, R = 1, n = 3, |V| = 5: c = 2 (see test_setting), so 5 (sqrt(2) sqrt(1 + log(2)^2) + log 2)."""
    k = math.log(2)
    expected = 5 * (math.sqrt(2) * math.sqrt(1 + k**2) + k)
    assert constant(sharp.unified_upper(single_head_ball(k, length=3, value=5.0))) == pytest.approx(expected)


def test_half_square_by_hand():
    """|A| R^2 = 2, n = 8: sqrt(8) + 2 (1 + 2)."""
    assert constant(sharp.half_square_upper(single_head_ball(2.0, length=8))) == pytest.approx(math.sqrt(8) + 6)


def test_token_max_by_hand():
    """|A| R^2 = 2, bias 1, |V| = 5: 5 (1 + 3 + 2) = 30."""
    ball = single_head_ball(2.0, length=8, bias=1.0, value=5.0, budget=PerToken(1.0))
    assert constant(sharp.token_max_upper(ball)) == pytest.approx(30.0)


@given(a=st.floats(0.1, 3), t=st.floats(0.2, 5), value=st.floats(0.1, 10), n=st.integers(1, 9))
def test_scaling_laws(a, t, value, n):
    for bound in (sharp.unified_upper, sharp.half_square_upper):
        base = bound(single_head_ball(a, length=n))
        assert bound(single_head_ball(a / t**2, length=n, radius=t)).log10 == pytest.approx(base.log10, abs=1e-9)
        stretched = bound(single_head_ball(a, length=n, value=value))
        assert stretched.log10 == pytest.approx(base.log10 + math.log10(value), abs=1e-9)


@given(a=st.floats(0, 20), n=st.integers(1, 2000))
def test_half_square_is_always_below_the_papers(a, n):
    ball = single_head_ball(a, length=min(n, 40))
    assert sharp.half_square_upper(ball).log10 <= paper.discrete_upper(ball).log10 + 1e-12


def test_no_interaction_is_solved_exactly():
    """A = 0, no mask: the map is V times the mean, of norm |V|; c = 1, so the unified bound is exact."""
    assert constant(sharp.unified_upper(single_head_ball(0.0, length=7, value=3.0))) == pytest.approx(3.0)


@pytest.mark.parametrize("mask", list(Mask))
@pytest.mark.parametrize("a", [-1.5, -0.5, 1.0])
def test_worst_case_ascent_does_not_exceed_and_comes_near(mask, a):
    """Ascent over configurations in the unit ball of the plane: below every bound, above a third of the best one."""
    A = a * torch.eye(2).double() + 0.2 * torch.randn(2, 2, generator=generator(0), dtype=torch.float64)
    layer = AttentionLayer.single_head(A, torch.eye(2).double(), mask=mask)
    worst = WorstCaseSearch(1.0, steps=40, restarts=3)(layer, 5, generator=generator(1))
    ball = BallSetting.of(layer, head_norms(layer), TokenMeasure.uniform(worst.points), Frobenius(1.0), radius=1.0)
    best = min(constant(bound(ball)) for bound in (sharp.unified_upper, sharp.half_square_upper))
    assert best / 3 <= worst.constant <= best


@given(seed=st.integers(0, 40), index=st.integers(0, len(CASES) - 1))
def test_token_max_dominates_the_jacobian_row_sums(seed, index):
    case = CASES[index]
    layer, measure = random_layer(case, generator(seed)), random_measure(case, generator(seed + 1), samples=1)
    sample = measure.sample(0)
    ball = BallSetting.around(layer, head_norms(layer), sample, PerToken(1e-9))
    dense = layer.linearize(sample).dense().reshape(sample.length, layer.out_width, sample.length, layer.width)
    direction = torch.randn(sample.length, layer.width, generator=generator(seed + 2), dtype=torch.float64)
    direction = direction / direction.norm(dim=-1, keepdim=True) * sample.present[:, None]
    moved = torch.einsum("iojd,jd->io", dense, direction).norm(dim=-1)[sample.present].max()
    assert float(moved) <= constant(sharp.token_max_upper(ball)) * (1 + 1e-6)

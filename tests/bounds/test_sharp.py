import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.bounds import paper, sharp
from robust_attn.bounds.setting import BallSetting
from robust_attn.budget import Frobenius, PerToken
from robust_attn.spectral.norms import head_norms
from tests.bounds.balls import single_head_ball
from tests.bounds.laws import ConstantLaws, steepest
from tests.cases import generator


class TestUpperBounds(ConstantLaws):
    names = growing = frozenset({"sharp.unified", "sharp.half_square", "sharp.mean_field"})
    slack = 0.0

    def promised(self, layer, sample, budget):
        ball = BallSetting.around(layer, head_norms(layer), sample, budget)
        return [bound(ball) for bound in (sharp.unified_upper, sharp.half_square_upper, sharp.sharp_mean_field_upper)]

    @pytest.mark.parametrize("mask", list(Mask))
    @pytest.mark.parametrize("a", [-1.5, -0.5, 1.0])
    def test_the_steepest_tokens_come_near(self, mask, a):
        """Above a third of the best of them."""
        layer, worst = steepest(mask, a)
        allowed = self.allowed(layer, TokenMeasure.uniform(worst.points), Frobenius(1e-9))
        assert min(allowed.values()) / 3 <= 1e-9 * worst.constant


class TestTokenMax(ConstantLaws):
    names = growing = frozenset({"sharp.token_max"})
    kinds = ("per_token",)

    def promised(self, layer, sample, budget):
        return [sharp.token_max_upper(BallSetting.around(layer, head_norms(layer), sample, budget))]

    def attained(self, layer, sample, budget):
        """Every token moved so that one output coordinate of one row gains most: sum_j |D_ij^T e| at least."""
        shape = (sample.length, layer.out_width, sample.length, layer.width)
        blocks = layer.linearize(sample).dense().reshape(shape)[sample.present][:, :, sample.present]
        return budget.radius * float(blocks.norm(dim=-1).sum(-1).max())


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


@given(a=st.floats(0, 20), n=st.integers(1, 2000))
def test_half_square_is_always_below_the_papers(a, n):
    ball = single_head_ball(a, length=min(n, 40))
    assert sharp.half_square_upper(ball).log10 <= paper.discrete_upper(ball).log10 + 1e-12


def test_no_interaction_is_solved_exactly():
    """A = 0, no mask: the map is V times the mean, of norm |V|; c = 1, so the unified bound is exact."""
    assert constant(sharp.unified_upper(single_head_ball(0.0, length=7, value=3.0))) == pytest.approx(3.0)


def test_one_key_lower_by_hand():
    """A = -1 (d = 1): |Ax| - <Ax, x> = |x| + x^2, 2 at x = 1. R = 1, n = 5: P = 1/(1 + 4 e^-2), 2 P (1 + 2 (1 - P))."""
    share = 1 / (1 + 4 * math.exp(-2))
    found = sharp.one_key_lower(torch.tensor([[-1.0]]).double(), radius=1.0, length=5)
    assert constant(found) == pytest.approx(2 * share * (1 + 2 * (1 - share)))
    assert found.side == "lower"
    assert not found.certifies


def test_one_key_of_a_positive_matrix_by_hand():
    """A = 8 I: 8 t - 8 t^2 is largest at t = 1/2, where it is 2: the paper's gamma / 8 without its eigenvalues."""
    x = sharp.one_key_query(8 * torch.eye(3).double())
    assert float(x.norm()) == pytest.approx(0.5)
    share = 1 / (1 + 4 * math.exp(-2))
    found = sharp.one_key_lower(8 * torch.eye(3).double(), radius=1.0, length=5)
    assert constant(found) == pytest.approx(2 * share * (1 + 2 * (1 - share)))


def test_one_key_of_a_rotation_by_hand():
    """A quarter turn has no real eigenvalue, |Ax| - <Ax, x> = |x|: 1 at every unit vector."""
    A = torch.tensor([[0.0, -1.0], [1.0, 0.0]]).double()
    share = 1 / (1 + 8 * math.exp(-1))
    expected = math.sqrt(8) * share * (1 + 1 - share)
    assert constant(sharp.one_key_lower(A, radius=1.0, length=9)) == pytest.approx(expected)
    assert not paper.discrete_lower(A, radius=1.0, length=9).applies


def test_two_key_lower_by_hand():
    """Keys q = -v, w beside, alpha = 1, t = pi/4, A = -I, V = 3 I, R = 2, n = 4: D = 4 (sin t + 1), and
    sqrt(1) 1 * 1 * 4 cos t * 3 / (1 + e^-D)."""
    e1, e2 = torch.eye(2).double()
    keys = sharp.TwoKeys(q=e1, v=-e1, w=e2, alpha=1.0, angle=math.pi / 4)
    expected = 12 * math.cos(math.pi / 4) / (1 + math.exp(-4 * (math.sin(math.pi / 4) + 1)))
    A, V = -torch.eye(2).double(), 3 * torch.eye(2).double()
    best = constant(sharp.two_key_lower(A, V, radius=2.0, length=4))
    assert best >= expected * (1 - 1e-3)
    assert best <= 12
    attained = exact_constant(AttentionLayer.single_head(A, V), keys.tokens(radius=2.0, length=4))
    assert attained >= expected * (1 - 1e-9)
    points = keys.tokens(radius=2.0, length=4)
    assert points.norm(dim=-1).tolist() == pytest.approx([2.0] * 4)
    assert torch.allclose(points[0] + points[1], -4 * math.sin(math.pi / 4) * e1)


def exact_constant(layer, points) -> float:
    return float(torch.linalg.matrix_norm(layer.linearize(TokenMeasure.uniform(points)).dense(), 2))


@settings(max_examples=10)
@given(seed=st.integers(0, 200), n=st.integers(3, 9), radius=st.floats(0.3, 2.5))
def test_the_stated_tokens_attain_the_lower_bounds_inside_the_ball(seed, n, radius):
    g = generator(seed)
    A = torch.randn(3, 3, generator=g, dtype=torch.float64)
    V = torch.randn(2, 3, generator=g, dtype=torch.float64)
    one = sharp.one_key_tokens(A, radius=radius, length=n)
    two = sharp.two_keys(A, V, radius=radius, length=n).tokens(radius=radius, length=n)
    for points in (one, two):
        assert float(points.norm(dim=-1).max()) <= radius * (1 + 1e-12)
    identity = torch.eye(3).double()
    floor = constant(sharp.one_key_lower(A, radius=radius, length=n))
    assert exact_constant(AttentionLayer.single_head(A, identity), one) >= floor * (1 - 1e-9)
    floor = constant(sharp.two_key_lower(A, V, radius=radius, length=n))
    assert exact_constant(AttentionLayer.single_head(A, V), two) >= floor * (1 - 1e-9)


def test_two_key_lower_is_nearly_the_whole_constant():
    """With R^2 = 9 the two keys draw nearly everything: the bound is within 5 % of the constant at its tokens."""
    A = torch.tensor([[-1.0, 0.6], [0.0, 0.5]]).double()
    identity = torch.eye(2).double()
    points = sharp.two_keys(A, identity, radius=3.0, length=16).tokens(radius=3.0, length=16)
    attained = exact_constant(AttentionLayer.single_head(A, identity), points)
    assert 0.95 * attained <= constant(sharp.two_key_lower(A, identity, radius=3.0, length=16)) <= attained


@settings(max_examples=6)
@given(seed=st.integers(0, 50), t=st.floats(0.3, 3), value=st.floats(0.1, 10))
def test_scaling_laws_of_lower_bounds(seed, t, value):
    A = torch.randn(2, 2, generator=generator(seed), dtype=torch.float64)
    V = torch.eye(2).double()
    one, two = sharp.one_key_lower(A, radius=1.0, length=6), sharp.two_key_lower(A, V, radius=1.0, length=6)
    assert sharp.one_key_lower(A / t**2, radius=t, length=6).log10 == pytest.approx(one.log10, abs=1e-6)
    assert sharp.two_key_lower(A / t**2, V, radius=t, length=6).log10 == pytest.approx(two.log10, abs=1e-6)
    stretched = sharp.two_key_lower(A, value * V, radius=1.0, length=6)
    assert stretched.log10 == pytest.approx(two.log10 + math.log10(value), abs=1e-9)


def test_one_key_query_is_the_best_of_a_fine_grid():
    angle = torch.linspace(0, 2 * math.pi, 721).double()
    for seed in range(10):
        A = torch.randn(2, 2, generator=generator(seed), dtype=torch.float64)
        unit = torch.stack([angle.cos(), angle.sin()], dim=-1)
        grid = (torch.linspace(0.05, 1, 20).double()[:, None, None] * unit).reshape(-1, 2)
        values = (grid @ A.T).norm(dim=-1) - ((grid @ A.T) * grid).sum(-1)
        x = sharp.one_key_query(A)
        assert float((A @ x).norm() - x @ A @ x) >= float(values.max()) * (1 - 1e-3)


def test_lower_bounds_that_need_more_tokens_say_so():
    A = torch.eye(2).double()
    assert not sharp.one_key_lower(A, radius=1.0, length=1).applies
    assert not sharp.two_key_lower(A, A, radius=1.0, length=2).applies
    assert not sharp.two_key_lower(A[:1, :1], A[:1, :1], radius=1.0, length=5).applies

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.bounds import paper
from robust_attn.spectral.lipschitz import local_lipschitz
from tests.bounds.balls import single_head_ball
from tests.cases import generator, one_sample

UPPER = [paper.discrete_upper, paper.mean_field_upper, paper.masked_mean_field_upper]


def constant(bound) -> float:
    return 10**bound.log10


def test_discrete_upper_by_hand():
    """n = 3, |A| = 2, R = 1, |V| = 5: sqrt(3) 5 (4*(4*3+1) + 3)^(1/2) = 5 sqrt(3 * 55) = 5 sqrt(165)."""
    assert constant(paper.discrete_upper(single_head_ball(2.0, length=3, value=5.0))) == pytest.approx(
        5 * math.sqrt(165)
    )


def test_discrete_upper_with_a_bias_by_hand():
    """kappa = (2 + 1) 1 = 3, a = 2: sqrt(3 (4*3*9 + 4 + 3)) = sqrt(345)."""
    assert constant(paper.discrete_upper(single_head_ball(2.0, length=3, bias=1.0))) == pytest.approx(math.sqrt(345))


def test_mean_field_upper_by_hand():
    """|A| R^2 = 2, |V| = 5: 5 (1 + 6) e^4."""
    assert constant(paper.mean_field_upper(single_head_ball(2.0, length=3, value=5.0))) == pytest.approx(
        35 * math.exp(4)
    )


def test_masked_mean_field_by_hand():
    """|A| R^2 = 2: 2 (1 + 4) e^4 + 2."""
    ball = single_head_ball(2.0, length=3, mask=Mask.CAUSAL)
    assert constant(paper.masked_mean_field_upper(ball)) == pytest.approx(10 * math.exp(4) + 2)


def test_discrete_lower_by_hand():
    """A = diag(-1, 0.5), R = 1, n = 5: gamma = max(1, 1/16) = 1, sqrt(4) / (1 + 4 e^-2)."""
    A = torch.diag(torch.tensor([-1.0, 0.5])).double()
    assert constant(paper.discrete_lower(A, radius=1.0, length=5)) == pytest.approx(2 / (1 + 4 * math.exp(-2)))


def test_mean_field_lower_by_hand():
    """gamma = 1, R^2 = 9: 4.5 e^9."""
    A = torch.diag(torch.tensor([-1.0, 0.5])).double()
    assert constant(paper.mean_field_lower(A, radius=3.0)) == pytest.approx(4.5 * math.exp(9))


def test_a_rotation_has_no_real_eigenvalue():
    A = torch.tensor([[0.0, -1.0], [1.0, 0.0]]).double()
    assert not paper.discrete_lower(A, radius=1.0, length=5).applies
    assert not paper.mean_field_lower(A, radius=1.0).applies


def test_mean_field_of_a_real_model_is_a_logarithm():
    """|A| R^2 = 900: log10 of (1 + 2700) e^1800 is 3.4315 + 781.73."""
    bound = paper.mean_field_upper(single_head_ball(900.0, length=3))
    assert bound.log10 == pytest.approx(math.log10(2701) + 1800 * math.log10(math.e))
    assert bound.output_change == math.inf


@pytest.mark.parametrize("bound", UPPER)
@given(a=st.floats(0.1, 3), t=st.floats(0.2, 5), value=st.floats(0.1, 10), n=st.integers(1, 9))
def test_scaling_laws(bound, a, t, value, n):
    """X -> tX with A -> A/t^2 leaves the constant; V -> cV multiplies it."""
    mask = Mask.CAUSAL if bound is paper.masked_mean_field_upper else Mask.NONE
    base = bound(single_head_ball(a, length=n, mask=mask))
    rescaled = bound(single_head_ball(a / t**2, length=n, radius=t, mask=mask))
    stretched = bound(single_head_ball(a, length=n, value=value, mask=mask))
    assert rescaled.log10 == pytest.approx(base.log10, abs=1e-9)
    assert stretched.log10 == pytest.approx(base.log10 + math.log10(value), abs=1e-9)


@pytest.mark.parametrize("length", [2, 64])
def test_the_published_masked_reading_is_false_in_the_averaged_metric(length):
    """A = 0, V = I: the causal map is the Cesaro mean, of norm above 1 where that reading says 1; Hardy's 2 holds."""
    zero, one = torch.zeros(1, 1).double(), torch.ones(1, 1).double()
    layer = AttentionLayer.single_head(zero, one, mask=Mask.CAUSAL)
    measure = one_sample(TokenMeasure.uniform(torch.zeros(length, 1).double()))
    norm = float(local_lipschitz(layer, measure).lower)
    assert norm == pytest.approx({2: 1.144, 64: 1.60}[length], abs=6e-3)
    ball = single_head_ball(0.0, length=length, mask=Mask.CAUSAL)
    assert not paper.mean_field_upper(ball).applies
    assert norm <= constant(paper.masked_mean_field_upper(ball)) == pytest.approx(2.0)


@pytest.mark.parametrize("negative", [True, False])
def test_adversarial_tokens_reach_the_discrete_lower_bound(negative):
    """At the configuration of the lower bound the local constant is at least what the bound says."""
    A = torch.diag(torch.tensor([-2.0, 0.3] if negative else [9.0, -0.1])).double()
    layer = AttentionLayer.single_head(A, torch.eye(2).double())
    for n in (2, 10, 40):
        points = paper.adversarial_tokens(A, radius=1.2, length=n)
        attained = float(local_lipschitz(layer, one_sample(TokenMeasure.uniform(points))).lower)
        assert attained >= constant(paper.discrete_lower(A, radius=1.2, length=n)) * (1 - 1e-9)


@given(seed=st.integers(0, 60), causal=st.booleans(), n=st.integers(1, 7), log_radius=st.floats(-1, 0.7))
def test_upper_bounds_dominate_random_configurations(seed, causal, n, log_radius):
    g, radius = generator(seed), 10**log_radius
    A = torch.randn(3, 3, generator=g, dtype=torch.float64)
    mask = Mask.CAUSAL if causal else Mask.NONE
    layer = AttentionLayer.single_head(A, torch.eye(3).double(), torch.randn(3, generator=g, dtype=torch.float64), mask)
    points = torch.randn(n, 3, generator=g, dtype=torch.float64)
    points = radius * points / points.norm(dim=-1, keepdim=True)
    from robust_attn.bounds.setting import BallSetting
    from robust_attn.budget import Frobenius
    from robust_attn.spectral.norms import head_norms

    measure = TokenMeasure.uniform(points)
    ball = BallSetting.of(layer, head_norms(layer), measure, Frobenius(1.0), radius=radius)
    attained = float(local_lipschitz(layer, one_sample(measure)).lower)
    for bound in UPPER:
        found = bound(ball)
        assert not found.applies or attained <= constant(found) * (1 + 1e-9)

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.attention.mask import Mask
from robust_attn.bounds.setting import BallSetting, joined_heads
from robust_attn.budget import BUDGETS, Frobenius, Wasserstein
from robust_attn.spectral.norms import head_norms
from tests.bounds.balls import single_head_ball
from tests.cases import CASES, generator, random_layer, random_measure


def test_mixing_by_hand():
    """n = 3, kappa = log 2: 3 / (1 + 2/4) = 2; causal: 1 + 1/(1 + 1/4) + 1/(1 + 2/4) = 1 + 0.8 + 2/3."""
    assert float(single_head_ball(math.log(2), length=3).mixing()) == pytest.approx(2.0)
    causal = single_head_ball(math.log(2), length=3, mask=Mask.CAUSAL)
    assert float(causal.mixing()) == pytest.approx(1 + 0.8 + 2 / 3)


def test_mixing_of_unequal_masses_in_the_averaged_norm_by_hand():
    """Masses (.1, .9), kappa = log 2, weights = masses: max_j 1 / (m_j + (1 - m_j)/4) = 1 / (.1 + .225)."""
    ball = single_head_ball(math.log(2), length=2, masses=[0.1, 0.9], budget=Wasserstein(1.0))
    assert float(ball.mixing()) == pytest.approx(1 / 0.325)


@given(seed=st.integers(0, 40), index=st.integers(0, len(CASES) - 1), kind=st.sampled_from(sorted(BUDGETS)))
def test_mixing_dominates_the_column_sums_of_attention(seed, index, kind):
    case = CASES[index]
    layer, measure = (
        random_layer(case, generator(seed)),
        random_measure(case, generator(seed + 1), samples=1, radius=2.0),
    )
    budget = BUDGETS[kind](0.1)
    ball = BallSetting.around(layer, head_norms(layer), measure.sample(0), budget)
    attention = layer.linearize(measure).attention()[0]
    weights, present = budget.weights(measure)[0], measure.present[0]
    columns = (weights[None, :, None] * attention).sum(-2)[:, present] / weights[present]
    assert (columns.amax(-1) <= ball.mixing() * (1 + 1e-9)).all()


def test_radius_covers_the_budget():
    case = CASES[0]
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1), samples=1).sample(0)
    ball = BallSetting.around(layer, head_norms(layer), measure, Frobenius(0.5))
    assert ball.radius == pytest.approx(float(measure.radius) + 0.5)


def test_joined_heads_takes_the_smaller_sum():
    layer = random_layer(CASES[0], generator(0))
    norms = head_norms(layer)
    constants = torch.tensor([2.0, 5.0]).double()
    added = float((norms.value * constants).sum())
    joint = norms.output * float((norms.inner_value * constants).square().sum().sqrt())
    assert joined_heads(norms, constants.log()) == pytest.approx(math.log(min(added, joint)))


def test_averaged_norm_is_recognised():
    assert single_head_ball(1.0, length=2, masses=[0.1, 0.9], budget=Wasserstein(1.0)).averaged
    assert not single_head_ball(1.0, length=2, masses=[0.1, 0.9], budget=Frobenius(1.0)).averaged
    assert single_head_ball(1.0, length=3, budget=Frobenius(1.0)).averaged

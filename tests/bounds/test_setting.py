import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.rotary import Rotary
from robust_attn.bounds import paper, sharp
from robust_attn.bounds.setting import BallSetting, joined_heads
from robust_attn.budget import BUDGETS, Frobenius, PerToken, Wasserstein
from robust_attn.spectral.norms import head_norms
from tests.bounds.balls import single_head_ball
from tests.cases import CASES, MORE_CASES, generator, random_layer, random_measure


def test_mixing_by_hand():
    """n = 3, kappa = log 2: 3 / (1 + 2/4) = 2; causal: 1 + 1/(1 + 1/4) + 1/(1 + 2/4) = 1 + 0.8 + 2/3."""
    assert float(single_head_ball(math.log(2), length=3).mixing()) == pytest.approx(2.0)
    causal = single_head_ball(math.log(2), length=3, mask=Mask.CAUSAL)
    assert float(causal.mixing()) == pytest.approx(1 + 0.8 + 2 / 3)


def test_mixing_of_unequal_masses_in_the_averaged_norm_by_hand():
    """Masses (.1, .9), kappa = log 2, weights = masses: max_j 1 / (m_j + (1 - m_j)/4) = 1 / (.1 + .225)."""
    ball = single_head_ball(math.log(2), length=2, masses=[0.1, 0.9], budget=Wasserstein(1.0))
    assert float(ball.mixing()) == pytest.approx(1 / 0.325)


@given(seed=st.integers(0, 40), case=st.sampled_from(MORE_CASES), kind=st.sampled_from(sorted(BUDGETS)))
def test_mixing_dominates_the_column_sums_of_attention(seed, case, kind):
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


def test_a_budget_per_token_is_stretched_by_the_root_of_the_length():
    """Four tokens that each move by 1 move by 2 together: constants of the Frobenius norm double."""
    plain, per_token = (single_head_ball(2.0, length=4, budget=budget) for budget in (Frobenius(1.0), PerToken(1.0)))
    assert per_token.stretch == pytest.approx(2.0)
    for bound in (paper.discrete_upper, sharp.unified_upper, sharp.half_square_upper):
        assert bound(per_token).output_change == pytest.approx(2 * bound(plain).output_change)


def test_a_scaled_rotation_scales_the_logits_twice():
    """Queries and keys are both multiplied: slopes, interaction and logits at zero by 3^2."""
    case = next(case for case in CASES if case.rotary and case.bias)
    layer = random_layer(case, generator(0))
    plain, scaled = head_norms(layer), head_norms(replace(layer, rotary=replace(layer.rotary, scaling=3.0)))
    for name in ("interaction", "key_slope_at_zero", "query_slope_at_zero", "logit_at_zero"):
        assert torch.allclose(getattr(scaled, name), 9 * getattr(plain, name)), name
    assert scaled.stacked_interaction == pytest.approx(9 * plain.stacked_interaction)


def test_biases_of_a_rotary_layer_by_hand():
    """W_Q = 2 I, W_K = 3 I, biases (1, 0) and (0, 4), scale 1/2: |A| = 3, |a| = 3/2 in the keys, 4 in the queries, and
    2 at zero; at R = 1 kappa is 3 + 3/2 + 4 + 2."""
    eye = torch.eye(2).double()[None]
    layer = AttentionLayer(
        query=2 * eye,
        query_bias=torch.tensor([[1.0, 0.0]]).double(),
        key=3 * eye,
        key_bias=torch.tensor([[0.0, 4.0]]).double(),
        value=eye,
        output=eye,
        offset=torch.zeros(2).double(),
        scale=0.5,
        rotary=Rotary(torch.tensor([1.0])),
    )
    norms = head_norms(layer)
    assert float(norms.key_slope(1.0)) == pytest.approx(4.5)
    assert float(norms.query_slope(1.0)) == pytest.approx(7.0)
    assert float(norms.largest_logit(1.0)) == pytest.approx(10.5)

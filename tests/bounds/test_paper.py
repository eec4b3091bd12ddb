import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.attacks.worst_case import WorstCaseSearch
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.operator import ScaledJacobian
from robust_attn.bounds import paper
from robust_attn.bounds.setting import BallSetting
from robust_attn.budget import Frobenius
from robust_attn.spectral.lipschitz import local_lipschitz
from robust_attn.spectral.norms import head_norms
from tests.bounds.balls import single_head_ball
from tests.bounds.laws import ConstantLaws, steepest
from tests.cases import generator, one_sample

UPPER = [paper.discrete_upper, paper.mean_field_upper, paper.masked_mean_field_upper]


class TestUpperBounds(ConstantLaws):
    names = growing = frozenset({"paper.discrete", "paper.mean_field", "paper.masked_mean_field"})

    def promised(self, layer, sample, budget):
        ball = BallSetting.around(layer, head_norms(layer), sample, budget)
        return [bound(ball) for bound in UPPER]

    @pytest.mark.parametrize("mask", list(Mask))
    def test_two_of_the_three_apply_to_equal_masses(self, mask):
        layer, worst = steepest(mask, -1.5)
        assert len(self.allowed(layer, TokenMeasure.uniform(worst.points), Frobenius(1.0))) == 2


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


def test_lower_bounds_of_a_positive_matrix_by_hand():
    """A = diag(8, 1), R = 1: gamma = max(-1, 8/8) = 1, so n = 5 gives sqrt(4) / (1 + 4 e^-2), and mean field e / 2."""
    A = torch.diag(torch.tensor([8.0, 1.0])).double()
    assert constant(paper.discrete_lower(A, radius=1.0, length=5)) == pytest.approx(2 / (1 + 4 * math.exp(-2)))
    assert constant(paper.mean_field_lower(A, radius=1.0)) == pytest.approx(math.e / 2)


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


@pytest.mark.parametrize("n", [1, 4])
def test_no_interaction_is_solved_exactly(n):
    """A = 0: the map is V times the mean, of norm |V| = 3: the mean-field bound is attained, the discrete one says
    sqrt(3 n) |V|; causal, the Cesaro mean, which Hardy's 2 |V| bounds for every n."""
    found = [bound(single_head_ball(0.0, length=n, value=3.0)) for bound in UPPER[:2]]
    assert [constant(bound) for bound in found] == pytest.approx([3 * math.sqrt(3 * n), 3.0])
    causal = paper.masked_mean_field_upper(single_head_ball(0.0, length=n, value=3.0, mask=Mask.CAUSAL))
    assert constant(causal) == pytest.approx(6.0)


@given(seed=st.integers(0, 500), n=st.integers(2, 9), log_radius=st.floats(-1, 0.5))
def test_the_stated_tokens_attain_the_discrete_lower_bound_inside_the_ball(seed, n, log_radius):
    radius = 10**log_radius
    A = torch.randn(3, 3, generator=generator(seed), dtype=torch.float64)  # 3 x 3: one real eigenvalue at least
    points = paper.adversarial_tokens(A, radius=radius, length=n)
    attained = exact_constant(AttentionLayer.single_head(A, torch.eye(3).double()), TokenMeasure.uniform(points))
    assert float(points.norm(dim=-1).max()) <= radius * (1 + 1e-12)
    assert attained >= constant(paper.discrete_lower(A, radius=radius, length=n)) * (1 - 1e-9)


def exact_constant(layer: AttentionLayer, measure: TokenMeasure) -> float:
    return float(torch.linalg.matrix_norm(ScaledJacobian(layer.linearize(measure), measure.masses).dense(), 2))


@pytest.mark.parametrize("eigenvalues", [(-1.5, 0.5), (9.0, -0.2)])
def test_ascent_from_random_starts_reaches_the_discrete_lower_bound(eigenvalues):
    A = torch.diag(torch.tensor(eigenvalues).double())
    layer = AttentionLayer.single_head(A, torch.eye(2).double())
    worst = WorstCaseSearch(1.0, steps=40, restarts=2)(layer, 6, generator=generator(0))
    assert worst.constant >= constant(paper.discrete_lower(A, radius=1.0, length=6))


@pytest.mark.parametrize("n", [2, 5, 17])
def test_the_discrete_lower_bound_is_exact_where_one_token_draws_everything(n):
    """R^2 gamma = 40: all others attend to the one token and it to them: sqrt(n - 1), and the bound says the same."""
    A = -torch.eye(1).double()
    points = paper.adversarial_tokens(A, radius=math.sqrt(40), length=n)
    attained = exact_constant(AttentionLayer.single_head(A, -A), TokenMeasure.uniform(points))
    assert attained == pytest.approx(math.sqrt(n - 1))
    assert constant(paper.discrete_lower(A, radius=math.sqrt(40), length=n)) == pytest.approx(math.sqrt(n - 1))


@given(seed=st.integers(0, 200), t=st.floats(0.2, 5), n=st.integers(2, 9))
def test_scaling_laws_of_the_lower_bounds(seed, t, n):
    """X -> tX with A -> A/t^2 leaves the constant."""
    A = torch.randn(3, 3, generator=generator(seed), dtype=torch.float64) - torch.eye(3)
    discrete = paper.discrete_lower(A, radius=1.0, length=n)
    assert paper.discrete_lower(A / t**2, radius=t, length=n).log10 == pytest.approx(discrete.log10, abs=1e-9)
    mean_field = paper.mean_field_lower(A, radius=1.0)
    rescaled = paper.mean_field_lower(A / t**2, radius=t)
    assert rescaled.applies == mean_field.applies
    assert not mean_field.applies or rescaled.log10 == pytest.approx(mean_field.log10, abs=1e-9)


def two_atoms(a: float, radius: float, log_odds: float) -> tuple[AttentionLayer, TokenMeasure]:
    """The configuration of the lower bounds as a measure: mass 1 / (1 + e^log_odds) on the token that stands alone."""
    A, mass = torch.tensor([[a]]).double(), 1 / (1 + math.exp(log_odds))
    points = paper.adversarial_tokens(A, radius=radius, length=2)
    masses = torch.tensor([mass, 1 - mass]).double()
    return AttentionLayer.single_head(A, torch.eye(1).double()), TokenMeasure.weighted(points, masses)


@given(a=st.floats(-3, 9).filter(lambda a: abs(a) > 0.01), reach=st.floats(0.05, 14))
def test_two_atoms_attain_the_mean_field_lower_bound(a, reach):
    """n ~ e^{2 gamma R^2} tokens, one of them alone: mass 1 / (1 + e^{2 gamma R^2}); here gamma R^2 = reach."""
    gamma = max(-a, a / 8)
    radius = math.sqrt(reach / gamma)
    attained = exact_constant(*two_atoms(a, radius, 2 * reach))
    assert attained >= constant(paper.mean_field_lower(torch.tensor([[a]]).double(), radius=radius)) * (1 - 1e-6)


def test_the_mean_field_lower_bound_is_exact_to_leading_order():
    """At these masses half of the others' attention goes to the one token: Lip = (gamma R^2 / 2 + 1/2) e^{gamma R^2} up
    to e^{-2 gamma R^2}, so the bound misses the part 1 / (1 + gamma R^2) of it."""
    for reach in (4.0, 8.0, 16.0):
        attained = exact_constant(*two_atoms(-1.0, math.sqrt(reach), 2 * reach))
        found = constant(paper.mean_field_lower(-torch.eye(1).double(), radius=math.sqrt(reach)))
        assert found / attained == pytest.approx(reach / (1 + reach), rel=3 * math.exp(-reach))


@pytest.mark.parametrize("a", [-1.0, 8.0])
def test_ascent_over_the_masses_exceeds_the_mean_field_lower_bound_and_not_the_upper_one(a):
    """Masses from e^-2 to e^2 times those of the lower bound, at gamma R^2 = 4: the best is at least 1.4 times it."""
    found = max(exact_constant(*two_atoms(a, 2.0, 8 + shift / 4)) for shift in range(-8, 9))
    lower = constant(paper.mean_field_lower(torch.tensor([[a]]).double(), radius=2.0))
    upper = constant(paper.mean_field_upper(single_head_ball(a, radius=2.0, length=2)))
    assert 1.4 * lower <= found <= upper

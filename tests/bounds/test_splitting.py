import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.bounds import paper
from robust_attn.bounds.setting import BallSetting
from robust_attn.bounds.splitting import split_mean_field, splitting_bounds
from robust_attn.budget import Frobenius, PerToken, Wasserstein
from robust_attn.spectral.norms import head_norms
from robust_attn.types import Scope, UserError
from tests.bounds.laws import ChangeLaws, place
from tests.bounds.slivers import ascended, inside, promised, random_slivers, seen, with_slivers
from tests.cases import Case, generator, random_layer, random_measure, scalar_layer, scalar_measure


class TestAnyMeasure(ChangeLaws):
    """On the ball of 1.5 times the largest token norm."""

    growing = frozenset({"split.mean_field", "split.hull"})
    names = growing | {"split.local"}
    kinds = ("wasserstein",)

    def promised(self, layer, sample, budget):
        return splitting_bounds(layer, head_norms(layer), sample, budget, support=1.5 * float(sample.radius))

    def precision(self, name):  # noqa: ARG002
        return 1e-6

    def moved(self, layer, sample, budget, seed):
        """Slivers of shares 1e-8 to 1/6 sent anywhere, alone or with everything else, and then ascended."""
        g, support = generator(seed), 1.5 * float(sample.radius)
        base = random_slivers(sample, g, count=3)
        moving = torch.ones(base.length, 1).double()
        moving[: sample.length] = float(seed % 2)
        places = base.points + 3 * support * moving * torch.randn(base.points.shape, generator=g, dtype=torch.float64)
        start = inside(base, places, eps=budget.radius, support=support)
        found = ascended(layer, base, places, eps=budget.radius, support=support)
        return [seen(layer, base, points) for points in (start, found)]

    def holds(self, observation, allowed):
        """Neither the coupling's own distance nor W2 of the outputs exceeds any bound."""
        worst = max(float(observation.output_change[0]), float(observation.w2_output[0]))
        for name, change in allowed.items():
            assert worst <= change * (1 + 1e-9) + float(observation.rounding[0]), name

    def test_slivers_keep_the_budget(self):
        layer, sample = place(Case(), 0)
        for observation in self.moved(layer, sample, Wasserstein(0.1), 0):
            assert float(observation.w2_input[0]) <= 0.1 * (1 + 1e-6)


def holds(observation, promise, *, rel: float = 1e-9) -> bool:
    """Neither the coupling's own distance nor W2 of the outputs exceeds any bound."""
    worst = max(float(observation.output_change[0]), float(observation.w2_output[0]))
    return all(worst <= change * (1 + rel) + float(observation.rounding[0]) for change in promise.changes)


def test_mean_field_by_hand():
    """|A| R^2 = 1, V = 2: the smaller of e sqrt(2) + 1 = 4.844 and cosh 1 + 1 + sqrt(1 + (27/32) cosh 2) = 4.586;
    at 0.1 it is e^0.1 sqrt(1.01) + 0.1 = 1.2107 against cosh 0.1 + 0.1 + 0.1 e^0.1 = 1.2155."""
    large = math.cosh(1) + 1 + math.sqrt(1 + 27 / 32 * math.cosh(2))
    small = math.exp(0.1) * math.sqrt(1.01) + 0.1
    for a, expected in ((1.0, large), (0.1, small)):
        found = promised(scalar_layer(a, 2.0), scalar_measure([0.0, 0.5]), 0.25, 1.0).mean_field
        assert found.output_change == pytest.approx(0.5 * expected)
        assert found.scope is Scope.MEASURES


def test_mean_field_under_a_causal_mask_by_hand():
    """n = 2: sum_i m_i / M_i = 1/2 / 1/2 + 1/2 / 1 = 3/2, so e^0.1 sqrt(3/2) sqrt(1.01) + 0.1. With A = 0 and forty
    tokens that sum is 1 + 1/2 + ... + 1/40 = 4.28, and Hardy's constant 2 is smaller than its root."""
    causal = AttentionLayer.single_head(torch.full((1, 1), 0.1).double(), torch.ones(1, 1).double(), mask=Mask.CAUSAL)
    expected = math.exp(0.1) * math.sqrt(1.5) * math.sqrt(1.01) + 0.1
    assert promised(causal, scalar_measure([0.0, 1.0]), 1.0, 1.0).mean_field.output_change == pytest.approx(expected)
    free = AttentionLayer.single_head(torch.zeros(1, 1).double(), torch.ones(1, 1).double(), mask=Mask.CAUSAL)
    assert promised(free, scalar_measure([0.5] * 40), 1.0, 1.0).mean_field.output_change == pytest.approx(2.0)


@given(a=st.floats(-20, 20), support=st.floats(1, 6))
def test_mean_field_is_never_above_the_papers(a, support):
    layer, sample = scalar_layer(a), scalar_measure([0.0, 1.0])
    ball = BallSetting.of(layer, head_norms(layer), sample, Wasserstein(1.0), radius=support)
    assert split_mean_field(ball).log10 <= paper.mean_field_upper(ball).log10 + 1e-9


def test_hull_by_hand():
    """V = 3, A = 0, masses 3/4 at -1 and 1/4 at 1: outputs are 3 * (-1/2), the farthest point of 3 B_2 is 6: 7.5."""
    found = promised(scalar_layer(0.0, 3.0), scalar_measure([-1.0, 1.0], [0.75, 0.25]), 0.01, 2.0).hull
    assert found.output_change == pytest.approx(7.5)


def test_hull_of_two_rows_by_hand():
    """A = log 3, x = (0, 1): row 0 outputs 1/2, row 1 outputs 3/4. R = 1: (((1 + 1/2)^2 + (1 + 3/4)^2) / 2)^{1/2}."""
    found = promised(scalar_layer(math.log(3)), scalar_measure([0.0, 1.0]), 0.01, 1.0).hull
    assert found.output_change == pytest.approx(math.sqrt((1.5**2 + 1.75**2) / 2))


def test_without_interaction_the_change_is_that_of_the_mean_and_attained():
    """A = 0: F(mu) is a point mass at V E x, which moves by |V| eps if everything moves together and never more."""
    layer, sample = scalar_layer(0.0, 3.0), scalar_measure([-1.0, 0.0, 0.4], [0.5, 0.3, 0.2])
    promise = promised(layer, sample, 0.25, 1.0)
    assert promise.local.output_change == pytest.approx(0.75)
    assert promise.mean_field.output_change == pytest.approx(0.75)
    assert float(seen(layer, sample, sample.points + 0.25).w2_output[0]) == pytest.approx(0.75)


def test_one_token():
    """n = 1: F(delta_x) = delta_{V x}; a move attains |V| eps, and the local bound tends to it."""
    layer, sample = scalar_layer(2.0, 3.0), scalar_measure([0.5])
    promise = promised(layer, sample, 1e-6, 1.0)
    assert float(seen(layer, sample, sample.points + 1e-6).w2_output[0]) == pytest.approx(3e-6)
    assert 3e-6 <= promise.local.output_change <= 3e-6 * 1.01


def test_splitting_beats_moving_where_copies_may_part():
    """x = (0, 1), A = -8: two halves of the token at 0 parting by +-h gain 2 where moving gains 1.853."""
    layer, sample = scalar_layer(-8.0), scalar_measure([0.0, 1.0])
    base = with_slivers(sample, torch.tensor([0]), torch.tensor([0.5]).double())
    h = 1e-4
    observation = seen(layer, base, base.points + h * torch.tensor([[1.0], [0.0], [-1.0]]).double())
    assert float(observation.w2_gain[0]) == pytest.approx(2.0, rel=1e-3)
    assert holds(observation, promised(layer, sample, float(observation.input_change[0]), 1.0))


@pytest.mark.parametrize("mass", [0.3, 0.01])
def test_unbalanced_masses(mass):
    """Mass m at -1 and 1 - m at 0, A = -1/m. A sliver of the atom at 0 gains 1 - m."""
    layer, sample = scalar_layer(-1 / mass), scalar_measure([-1.0, 0.0], [mass, 1 - mass])
    base = with_slivers(sample, torch.tensor([1]), torch.tensor([1e-6]).double())
    observation = seen(layer, base, base.points + 1e-4 * torch.tensor([[0.0], [0.0], [1.0]]).double())
    assert float(observation.w2_gain[0]) == pytest.approx(1 - mass, rel=1e-2)
    assert holds(observation, promised(layer, sample, float(observation.input_change[0]), 1.0))


def test_a_sliver_gains_more_than_local_constants_say():
    """x = (-1, 1), A = 8, mass 1e-6 from 1 to -0.18 gains 1.6048, where local constants say 1.0000;
    the local bound is within a factor of 2.5 of it, five hundred times below the hull."""
    layer, sample = scalar_layer(8.0), scalar_measure([-1.0, 1.0])
    base = with_slivers(sample, torch.tensor([1]), torch.tensor([2e-6]).double())
    points = torch.tensor([[-1.0], [1.0], [-0.18]]).double()
    observation = seen(layer, base, points)
    assert float(observation.w2_gain[0]) == pytest.approx(1.6048, abs=1e-4)
    promise = promised(layer, sample, float(observation.input_change[0]), 1.0)
    assert holds(observation, promise)
    assert promise.local.output_change <= 2.5 * float(observation.w2_output[0])


def test_a_sliver_of_hardly_any_mass_reaches_the_hull():
    """x = 1, A = -20, mass 1e-10 to -1 within W2 2e-5: it draws e^40 1e-10 = 2e7 times the rest, every output goes from
    1 to -1, and the hull says 1 + 1 = 2. Exponential return for a square-root price."""
    layer, sample = scalar_layer(-20.0), scalar_measure([1.0])
    base = with_slivers(sample, torch.tensor([0]), torch.tensor([1e-10]).double())
    observation = seen(layer, base, torch.tensor([[1.0], [-1.0]]).double())
    promise = promised(layer, sample, float(observation.input_change[0]), 1.0)
    assert promise.hull.output_change == pytest.approx(2.0)
    assert float(observation.w2_output[0]) >= 2 * (1 - 1e-6)
    assert holds(observation, promise)


@pytest.mark.parametrize("scale", [0.1, 0.2])
def test_ascent_comes_near_the_local_bound_where_logits_are_small(scale):
    layer = random_layer(Case(bias=False), generator(0), scale=scale)
    sample = random_measure(Case(bias=False), generator(1), samples=1).sample(0)
    support, eps = float(sample.radius), 1e-3
    start = sample.points + torch.randn(sample.points.shape, generator=generator(2), dtype=torch.float64)
    points = ascended(layer, sample, start, eps=eps, support=2 * support, steps=60)
    found = float(seen(layer, sample, points).w2_output[0])
    promise = promised(layer, sample, eps, 2 * support)
    assert found <= promise.local.output_change <= 6 * found
    assert promise.local.output_change < promise.hull.output_change


def test_other_budgets_and_rotary_positions_say_why_they_do_not_apply():
    layer, sample = scalar_layer(1.0), scalar_measure([0.0, 1.0])
    for budget in (Frobenius(0.1), PerToken(0.1)):
        bounds = splitting_bounds(layer, head_norms(layer), sample, budget, support=1.0)
        assert [bound.name for bound in bounds] == ["split.mean_field", "split.hull", "split.local"]
        assert not any(bound.applies or bound.certifies for bound in bounds)
    rotary = Case(rotary=True)
    turned, tokens = random_layer(rotary, generator(0)), random_measure(rotary, generator(1), samples=1).sample(0)
    promise = promised(turned, tokens, 0.1, 2 * float(tokens.radius))
    assert promise.mean_field.applies
    assert promise.hull.applies
    assert not promise.local.applies


def test_a_support_that_leaves_tokens_out_is_refused():
    layer, sample = scalar_layer(1.0), scalar_measure([0.0, 1.0])
    with pytest.raises(UserError, match="largest token norm"):
        splitting_bounds(layer, head_norms(layer), sample, Wasserstein(0.1), support=0.9)


def test_padding_changes_nothing():
    layer, sample = scalar_layer(1.0), scalar_measure([0.2, 1.0])
    padded = scalar_measure([0.2, 1.0, 50.0], [0.5, 0.5, 0.0])
    assert promised(layer, padded, 0.1, 1.0).changes == promised(layer, sample, 0.1, 1.0).changes


def test_large_logits_leave_the_hull_and_nothing_becomes_not_a_number():
    """|A| R^2 = 900: the mean-field constant is known by its logarithm; in the ball of twice the radius, where slivers
    can draw e^900 times what tokens do, the local constant is infinite."""
    layer, sample = scalar_layer(900.0), scalar_measure([-1.0, 1.0])
    expected = (900 + math.log(900) + math.log(27 / 64) / 2) / math.log(10)
    assert promised(layer, sample, 0.1, 1.0).mean_field.log10 == pytest.approx(expected, abs=1e-2)
    promise = promised(layer, sample, 0.1, 2.0)
    assert [bound.certifies for bound in (promise.mean_field, promise.hull, promise.local)] == [False, True, False]
    assert promise.local.log10 == math.inf
    assert not any(math.isnan(change) for change in promise.changes)


def test_nothing_moves_at_radius_zero():
    promise = promised(scalar_layer(1.0), scalar_measure([0.0, 1.0]), 0.0, 1.0)
    assert (promise.mean_field.output_change, promise.local.output_change) == (0.0, 0.0)

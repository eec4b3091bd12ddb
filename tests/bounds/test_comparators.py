import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.operator import FunctionJacobian, ScaledJacobian
from robust_attn.attention.rotary import Rotary
from robust_attn.bounds import comparators
from robust_attn.bounds.bound import AT_TOKENS
from robust_attn.bounds.comparators import AtTokens, comparator_bounds, inverse_phi, softmax_slope
from robust_attn.budget import BUDGETS, Frobenius, PerToken, Wasserstein
from robust_attn.spectral.norms import head_norms
from tests.bounds.laws import ConstantLaws
from tests.cases import CASES, MORE_CASES, Case, generator, random_layer, random_measure, scalar_layer, scalar_measure

PLAIN = Case(bias=False)
NAMES = {"comparator.yudin", "comparator.nair", "comparator.released", "comparator.kim_l2", "comparator.ibp"}


class TestYudinAndNair(ConstantLaws):
    names = growing = frozenset({"comparator.yudin", "comparator.nair"})

    def promised(self, layer, sample, budget):
        at = at_tokens(layer, sample, budget)
        return [comparators.yudin_local(at), comparators.nair_local(at)]

    @pytest.mark.parametrize("kind", sorted(BUDGETS))
    @pytest.mark.parametrize("case", MORE_CASES, ids=str)
    def test_yudin_is_never_above_nair_where_it_applies(self, case, kind):
        for seed, scale in enumerate((0.2, 2.0)):
            layer = random_layer(case, generator(seed), scale=scale)
            sample = random_measure(case, generator(seed + 1), samples=1).sample(0)
            yudin, nair = self.promised(layer, sample, BUDGETS[kind](1.0))
            stated = yudin.why_not == AT_TOKENS
            assert stated == (not case.rotary and not (kind == "wasserstein" and case.masses == "unequal"))
            assert not stated or constant(yudin) <= constant(nair) * (1 + 1e-9)


def at_tokens(layer, measure, budget=None) -> AtTokens:
    return AtTokens.of(layer, head_norms(layer), measure, budget or Frobenius(1.0))


def kim_l2(layer, measure, budget=None):
    return comparators.kim_l2_upper(layer, at_tokens(layer, measure, budget).ball)


def constant(bound) -> float:
    return 10**bound.log10


def exact_constant(layer, measure, budget=None) -> float:
    weights = (budget or Frobenius(1.0)).weights(measure)
    return float(torch.linalg.matrix_norm(ScaledJacobian(layer.linearize(measure), weights).dense(), 2))


def biased_pair(a: float, bias: float, value: float = 1.0) -> AttentionLayer:
    return AttentionLayer.single_head(*(torch.tensor(x).double() for x in ([[a]], [[value]], [bias])))


@given(seed=st.integers(0, 300), size=st.floats(0, 20), n=st.integers(1, 8))
def test_the_slope_of_a_softmax_is_below_g_and_g_below_a_half(seed, size, n):
    p = (size * torch.randn(n, generator=generator(seed), dtype=torch.float64)).softmax(-1)
    norm = float(torch.linalg.matrix_norm(torch.diag(p) - torch.outer(p, p), 2))
    assert norm <= float(softmax_slope(p)) + 1e-15
    assert float(softmax_slope(p)) <= 0.5 + 1e-15


def test_g_is_the_norm_where_the_other_entries_are_equal_or_zero():
    """(1/2, 1/4, 1/4, 0): 1/2 (1/2 + 1/4) = 3/8; (2, -1, -1, 0) is an eigenvector: 1/2 * 2 - 1/2 * 1/2 = 3/8 * 2."""
    p = torch.tensor([0.5, 0.25, 0.25, 0.0]).double()
    assert float(softmax_slope(p)) == 0.375
    vector = torch.tensor([2.0, -1.0, -1.0, 0.0]).double()
    assert torch.allclose((torch.diag(p) - torch.outer(p, p)) @ vector, 0.375 * vector)
    assert float(softmax_slope(torch.ones(1).double())) == 0


def test_yudin_and_nair_by_hand():
    """X = (1, -1), A = log(3)/2: P has rows (3/4, 1/4) and (1/4, 3/4), norm 1; |X|^2 = 2, g = 3/4 (1/4 + 1/4) = 3/8.
    Yudin: 1 + 2 * 2 * log(3)/2 * 3/8 = 1 + 3/4 log 3. Nair: 1 + log(3)/2 * 2 = 1 + log 3. Times |V| = 5."""
    at = at_tokens(scalar_layer(math.log(3) / 2, 5.0), scalar_measure([1.0, -1.0]))
    assert constant(comparators.yudin_local(at)) == pytest.approx(5 * (1 + 0.75 * math.log(3)))
    assert constant(comparators.nair_local(at)) == pytest.approx(5 * (1 + math.log(3)))


def test_yudin_and_nair_with_a_query_bias_by_hand():
    """X = (1, -1), A = 0, a = log(3)/2: both rows are (3/4, 1/4), |P|^2 = 2 (9/16 + 1/16); |X| |a| sqrt(2) = log 3."""
    at = at_tokens(biased_pair(0.0, math.log(3) / 2), scalar_measure([1.0, -1.0]))
    assert constant(comparators.yudin_local(at)) == pytest.approx(math.sqrt(1.25) + 0.375 * math.log(3))
    assert constant(comparators.nair_local(at)) == pytest.approx(math.sqrt(1.25) + 0.5 * math.log(3))


def test_nair_with_unequal_weights_by_hand():
    """Masses m = (1/5, 4/5), X = (1, -1), A = 0, a = log 2: P_j is m_j e^{a x_j} = (2/5, 2/5), so 1/2 everywhere.
    |m^{1/2} P m^{-1/2}| = |m^{1/2}| |m^{-1/2}| / 2 = (5 + 5/4)^{1/2} / 2 = 5/4. |X| = sqrt(2), w / min w = (1, 4), so
    L = log(2) sqrt(5), and 5/4 + sqrt(10) log(2) / 2 in all."""
    measure = scalar_measure([1.0, -1.0], [0.2, 0.8])
    found = comparators.nair_local(at_tokens(biased_pair(0.0, math.log(2)), measure, Wasserstein(1.0)))
    assert constant(found) == pytest.approx(1.25 + math.sqrt(10) * math.log(2) / 2)


def test_nair_with_a_rotation_by_hand():
    """W_Q = (2, 0)^T, W_K = (1, 0)^T, scale 1/4, a quarter turn per position, times 3; X = (1, -1) at positions 0, 1:
    K = 3 ((1, 0), (0, -1)) of norm 3, Q = 2 K. L = 3/4 (2 * 3 + 1 * 6) = 9. The logits are 9/2 on the diagonal and 0
    beside it, |P| = 1, |X| = sqrt(2): 1 + 9 sqrt(2) / 2. Angles are in float32."""
    first, none = torch.tensor([[[1.0], [0.0]]]).double(), torch.zeros(1, 2).double()
    turn = Rotary(torch.tensor([math.pi / 2]), scaling=3.0)
    layer = replace(
        scalar_layer(1.0), query=2 * first, key=first, query_bias=none, key_bias=none, scale=0.25, rotary=turn
    )
    found = comparators.nair_local(at_tokens(layer, scalar_measure([1.0, -1.0])))
    assert constant(found) == pytest.approx(1 + 9 * math.sqrt(2) / 2, rel=1e-6)


@pytest.mark.parametrize("mask", list(Mask))
@pytest.mark.parametrize("n", [1, 2, 6])
def test_no_interaction_is_solved_exactly(mask, n):
    """A = 0: the derivative is V times P, masked the Cesaro mean (1.144 at n = 2); n = 1: it is V."""
    zero, V = torch.zeros(2, 2).double(), torch.diag(torch.tensor([3.0, 1.0])).double()
    layer = AttentionLayer.single_head(zero, V, mask=mask)
    measure = TokenMeasure.uniform(torch.randn(n, 2, generator=generator(n), dtype=torch.float64))
    at, exact = at_tokens(layer, measure), exact_constant(layer, measure)
    assert constant(comparators.yudin_local(at)) == pytest.approx(exact)
    assert constant(comparators.nair_local(at)) == pytest.approx(exact)
    if n == 1:
        assert exact == pytest.approx(3.0)


def test_one_token_leaves_yudin_nothing_but_the_value():
    """n = 1: P = 1 and g = 0, whatever A and the bias are."""
    at = at_tokens(biased_pair(7.0, 2.0, 3.0), scalar_measure([5.0]))
    assert constant(comparators.yudin_local(at)) == pytest.approx(3.0)


@given(seed=st.integers(0, 100), t=st.floats(0.2, 5), factor=st.floats(0.1, 10))
def test_scaling_laws_of_released(seed, t, factor):
    """X -> t X, A -> A / t^2 leaves the constant; V -> c V multiplies it."""
    g = generator(seed)
    layer, measure = random_layer(PLAIN, g), random_measure(PLAIN, g, samples=1).sample(0)
    scaled = replace(layer, query=layer.query / t, key=layer.key / t, output=factor * layer.output)
    base = comparators.released_local(at_tokens(layer, measure)).log10
    found = comparators.released_local(at_tokens(scaled, measure.with_points(t * measure.points))).log10
    assert found == pytest.approx(base + math.log10(factor), abs=1e-9)


def test_released_by_hand():
    """X = (1, -1), A = 2, V = 5: rho = r = n = 2: 5 sqrt(4 * 4 * 3 + 2) = 5 sqrt(50). A query bias is not seen."""
    expected = 5 * math.sqrt(50)
    for bias in (0.0, 7.0):
        at = at_tokens(biased_pair(2.0, bias, 5.0), scalar_measure([1.0, -1.0]))
        assert constant(comparators.released_local(at)) == pytest.approx(expected)


def test_released_adds_heads_by_hand():
    """Two heads sharing keys, W_Q = (2, 4) and scale 1/2, so A = (1, 2); V = (3, 4), X = (1, -1):
    3 sqrt(4 * 3 + 2) + 4 sqrt(4 * 4 * 3 + 2)."""
    layer = replace(two_heads(queries=(2.0, 4.0), outputs=(3.0, 4.0)), scale=0.5)
    expected = 3 * math.sqrt(14) + 4 * math.sqrt(50)
    found = comparators.released_local(at_tokens(layer, scalar_measure([1.0, -1.0])))
    assert constant(found) == pytest.approx(expected)


def two_heads(queries, outputs) -> AttentionLayer:
    query, output = (torch.tensor(values).double()[:, None, None] for values in (queries, outputs))
    return replace(scalar_layer(1.0), query=query, query_bias=torch.zeros(2, 1).double(), output=output)


def test_released_is_not_a_theorem():
    """Tokens +-u and A = t u e^T with e orthogonal to u: A x_i = 0, so rho = 0 and it says sqrt(2). But attention is
    even, C_i = u u^T, and moving x_i along e moves its output by t u: the constant is at least t = 50."""
    u, e = torch.eye(2).double()
    layer = AttentionLayer.single_head(50 * torch.outer(u, e), torch.eye(2).double())
    measure = TokenMeasure.uniform(torch.stack([u, -u]))
    assert constant(comparators.released_local(at_tokens(layer, measure))) == pytest.approx(math.sqrt(2))
    assert exact_constant(layer, measure) >= 50


@given(value=st.floats(0, 1e6))
def test_inverse_phi_is_the_inverse(value):
    x = inverse_phi(value)
    assert x >= 0
    assert x * math.exp(x + 1) == pytest.approx(value, rel=1e-12, abs=1e-12)


def test_kim_by_hand():
    """n = 2: x e^{x+1} = 1 at x = 0.2784645427610738. W_Q = 3, W_V = 1, W_O = 5, scale 1: sqrt(2) (4 x + 1) 3^2 * 5.

    One token: x = 0, and 45 is the constant of L2 attention itself, 5 * 3 * 3 x; |W_Q| |W_V| |W_O| = 15 is below it."""
    layer = scalar_layer(3.0, 5.0)
    expected = math.sqrt(2) * (4 * 0.2784645427610738 + 1) * 45
    assert constant(kim_l2(layer, scalar_measure([1.0, -1.0]))) == pytest.approx(expected)
    assert constant(kim_l2(layer, scalar_measure([1.0]))) == pytest.approx(45.0)
    assert float(l2_attention(layer, torch.ones(1, 1).double())) == pytest.approx(45.0)


def test_kim_joins_heads_by_hand():
    """|W_Q|^2 = 3 and 4, W_V = 1: (9 + 16)^{1/2} = 5; W_O = (5, 12) side by side: 13. One token, scale 1/2: 65 / 2."""
    layer = replace(two_heads(queries=(math.sqrt(3), 2.0), outputs=(5.0, 12.0)), scale=0.5)
    assert constant(kim_l2(layer, scalar_measure([1.0]))) == pytest.approx(32.5)


def l2_attention(layer: AttentionLayer, points: torch.Tensor) -> torch.Tensor:
    """The map of Kim et al.: P from minus squared distances of W_Q x, values W_V W_Q^T W_Q x through sum_h W_O^h."""
    outputs = []
    for head in range(layer.heads):
        W, V, O = layer.query[head], layer.value[layer.group_of(head)], layer.output[head]  # noqa: E741
        q = points @ W.T
        attention = (-layer.scale * (q[:, None] - q[None, :]).square().sum(-1)).softmax(-1)
        outputs.append(attention @ points @ (layer.scale * W.T @ W) @ V.T @ O.T)
    return torch.stack(outputs).sum(0)


@settings(max_examples=12)
@given(seed=st.integers(0, 300), n=st.integers(1, 6), spread=st.sampled_from([0.1, 1.0, 3.0, 20.0]))
def test_kim_dominates_the_map_it_speaks_of(seed, n, spread):
    """Held against the derivative of L2 attention itself, because the formula comes from memory."""
    g = generator(seed)
    layer = random_layer(PLAIN, g)
    points = spread * torch.randn(n, 5, generator=g, dtype=torch.float64)
    dense = FunctionJacobian(lambda X: l2_attention(layer, X), points).dense()
    exact = float(torch.linalg.matrix_norm(dense, 2))
    assert exact <= constant(kim_l2(layer, TokenMeasure.uniform(points))) * (1 + 1e-9)


def test_kim_is_a_number_for_scale_that_never_applies():
    found = kim_l2(scalar_layer(3.0), scalar_measure([1.0, -1.0]))
    assert math.isfinite(found.output_change)
    assert not found.applies
    assert "another map" in found.why_not
    masked = kim_l2(replace(scalar_layer(3.0), mask=Mask.CAUSAL), scalar_measure([1.0, -1.0]))
    assert math.isnan(masked.output_change)
    assert masked.comparator


@pytest.mark.parametrize("kind", sorted(BUDGETS))
@pytest.mark.parametrize("case", CASES, ids=str)
def test_all_comparators_speak_and_none_certifies(case, kind):
    g = generator(2)
    layer, measure = random_layer(case, g), random_measure(case, g, samples=1).sample(0)
    found = comparator_bounds(layer, head_norms(layer), measure, BUDGETS[kind](0.1))
    assert {bound.name for bound in found} == NAMES
    for bound in found:
        assert bound.comparator
        assert not bound.certifies
        assert bound.applies == (bound.why_not is None)
        assert not bound.applies or math.isfinite(bound.output_change)
        if math.isfinite(bound.output_change):
            assert bound.output_change == pytest.approx(0.1 * constant(bound))


def test_local_formulas_hold_to_first_order_only():
    """X = (0, 0): the derivative is the mean, of norm 1, and both formulas say 1 exactly. A = 30 and Y = (2.9, 0.7), of
    norm below 3: both rows attend to the first token alone, f(Y) = (2.9, 2.9), a change of 4.10 where they say 3."""
    layer, measure = scalar_layer(30.0), scalar_measure([0.0, 0.0])
    change = float((layer(scalar_measure([2.9, 0.7])) - layer(measure)).norm())
    assert change == pytest.approx(2.9 * math.sqrt(2))
    for bound in (comparators.yudin_local, comparators.nair_local):
        found = bound(at_tokens(layer, measure, Frobenius(3.0)))
        assert found.scope == "local"
        assert not found.applies
        assert found.output_change == pytest.approx(3.0)


def test_a_budget_per_token_stretches_by_the_root_of_the_length():
    """max_i |df_i| <= |df|_F <= L |dX|_F <= L sqrt(n) max_j |dx_j|."""
    layer, measure = scalar_layer(1.0), scalar_measure([0.0, 1.0, 2.0, -1.0])
    per_token, whole = (comparators.nair_local(at_tokens(layer, measure, b)) for b in (PerToken(0.1), Frobenius(0.1)))
    assert per_token.output_change == pytest.approx(2 * whole.output_change)


def test_formulas_say_where_they_are_not_stated():
    g, rotary = generator(1), Case(rotary=True)
    at = at_tokens(random_layer(rotary, g), random_measure(rotary, g, samples=1).sample(0))
    assert "rotary" in comparators.yudin_local(at).why_not
    assert "rotary" in comparators.released_local(at).why_not
    weighted = scalar_measure([0.0, 1.0], [0.3, 0.7])
    at = at_tokens(scalar_layer(1.0), weighted, Wasserstein(0.1))
    assert "weights" in comparators.yudin_local(at).why_not
    assert "equal mass" in comparators.released_local(at).why_not
    assert comparators.yudin_local(at_tokens(scalar_layer(1.0), weighted, Frobenius(0.1))).why_not == AT_TOKENS

import math

import pytest
import torch

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.bounds.pieces import Centred, Pieces, can_split, least_masses
from robust_attn.bounds.pieces_change import key_rest, query_rest
from robust_attn.bounds.splitting import without_padding
from robust_attn.budget import Wasserstein
from robust_attn.certificates.measures import certify_context, context_constant
from robust_attn.spectral.norms import head_norms
from robust_attn.types import Scope
from tests.bounds.laws import ChangeLaws, place
from tests.bounds.pieces import FAR, block_of, context_promise, places_of, random_pieces
from tests.bounds.slivers import ascended, inside, seen
from tests.cases import Case, generator, one_sample, random_layer, random_measure, scalar_layer, scalar_measure

CONTEXTS = (1.0, 8.0, 60.0, 61.0, 1e4, 1e7)
KINDS = (Case(masses="unequal"), Case(Mask.CAUSAL, rotary=True), Case(), Case(sinks=True, position_bias=True))


@pytest.mark.slow
class TestPieces(ChangeLaws):
    """In a context of sixty tokens; atoms stay in the ball of 1.5 times the largest token norm."""

    growing = frozenset({"context.second_order", "context.second_order_deterministic", "context.hull"})
    names = growing
    kinds = ("wasserstein",)
    context = 60.0

    def promised(self, layer, sample, budget):
        batch, within = one_sample(sample), Wasserstein(budget.radius, 1.5 * float(sample.radius))
        constant = context_constant(layer, batch, context=self.context, seed=3)
        return certify_context(layer, batch, within, context=self.context, lipschitz=constant)[0].bounds

    def precision(self, name):  # noqa: ARG002
        return 1e-6

    def moved(self, layer, sample, budget, seed):
        """Pieces sent anywhere in the support, alone or with everything else, and then ascended."""
        g, support = generator(seed), 1.5 * float(sample.radius)
        whole = without_padding(sample)
        base = random_pieces(whole, self.context, g)
        places = places_of(base, whole.length, 3 * support, g, still=bool(seed % 2))
        start = inside(base, places, eps=budget.radius, support=support)
        found = ascended(layer, base, places, eps=budget.radius, support=support)
        return [seen(layer, base, points) for points in (start, found)]

    def holds(self, observation, allowed):
        worst = max(float(observation.output_change[0]), float(observation.w2_output[0]))
        for name, change in allowed.items():
            assert worst <= change * (1 + 1e-9) + float(observation.rounding[0]), name


@pytest.mark.parametrize(
    "context", [60.0, *(pytest.param(each, marks=pytest.mark.slow) for each in CONTEXTS if each != 60)]
)
def test_no_split_with_pieces_this_heavy_exceeds_a_bound(context):
    """Every kind of layer by turns, logits small and large, with and without a support; pieces are ascended."""
    for turn, case in enumerate(KINDS if context != 60.0 else KINDS[:1]):
        layer = random_layer(case, generator(turn), scale=(0.3, 0.9)[turn % 2])
        sample = random_measure(case, generator(turn + 1), samples=1, length=3).sample(0)
        eps = (1e-3, 0.03, 0.3)[(turn + CONTEXTS.index(context)) % 3]
        promise = context_promise(layer, sample, eps, context)
        g = generator(turn + 2)
        base = random_pieces(sample, context, g)
        places = places_of(base, 3, eps * math.sqrt(context), g, still=turn % 2 == 0)
        for points in (inside(base, places, eps=eps, support=FAR), ascended(layer, base, places, eps=eps, support=FAR)):
            found = seen(layer, base, points)
            worst = float(torch.maximum(found.output_change, found.w2_output)[0])
            for bound in promise:
                assert worst <= bound.output_change * (1 + 1e-9) + float(found.rounding[0]), (case, bound.name)


@pytest.mark.slow
@pytest.mark.parametrize("case", [Case(masses="unequal"), Case(Mask.CAUSAL, rotary=True), Case(sinks=True)], ids=str)
def test_lighter_pieces_never_allow_less(case):
    layer, sample = place(case, 3)
    contexts = [1.0, 2.0, 7.0, 8.0, 9.0, 60.0, 61.0, 500.0, 1e4, 1.1e4, 1e6, 1e9, math.inf]
    for support in (math.inf, 1.2 * float(sample.radius)):
        changes = [
            [bound.output_change for bound in context_promise(layer, sample, 0.05, context, support=support)]
            for context in contexts
            if math.isfinite(context) or math.isfinite(support)
        ]
        for found in zip(*changes, strict=True):
            assert list(found) == sorted(found)


def test_lighter_pieces_never_allow_less_in_three_contexts():
    layer, sample = scalar_layer(1.0, 3.0), scalar_measure([-1.0, 0.2, 1.0], [0.5, 0.3, 0.2])
    changes = [
        [bound.output_change for bound in context_promise(layer, sample, 0.05, context, constant=3.0)]
        for context in (4.0, 100.0, 101.0)
    ]
    for found in zip(*changes, strict=True):
        assert list(found) == sorted(found)


def test_by_hand_where_queries_do_not_matter():
    """A = 0 and a query bias: all logits are 2 x, V = 3, x = (-1, 1), N = 25, eps = 0.1: pieces go 0.5, so T = 1.

    P = (1-p, p) in both rows, p = e^4/(1 + e^4); values are 6p and 6(1-p) from their mean, their variance is
    36 p (1-p). Z falls by b at most, rises by b + 4 q. With the derivative's norm given as 7 every term is written out.
    """
    layer = AttentionLayer.single_head(*torch.tensor([[[0.0]], [[3.0]]]).double(), torch.tensor([2.0]).double())
    p, eps = 1 / (1 + math.exp(-4)), 0.1
    first, second = math.e - 1, math.e - 2
    b = 2 * eps * math.sqrt(2 * p**2 + 2 * (1 - p) ** 2)
    q = eps**2 * 4 * second * 2 * p
    excess = max(math.expm1(b), (b + q) / (1 + b + q))
    scaled = eps * excess * math.sqrt(9 + 4 * 36 * p * (1 - p)) * math.sqrt(2 * p)
    columns = [2 * share * (4 * second * d + 3 * 2 * first) for share, d in ((1 - p, 6 * p), (p, 6 * (1 - p)))]
    expected = 7 * eps + scaled + eps**2 * math.exp(b) * max(columns)
    promise = context_promise(layer, scalar_measure([-1.0, 1.0]), eps, 25.0, constant=7.0)
    assert promise[0].output_change == pytest.approx(expected, rel=1e-6)
    assert promise[1].output_change == pytest.approx(expected, rel=1e-6)
    assert promise[2].output_change == pytest.approx(6 * p + 3 * 0.5, rel=1e-6)
    assert {bound.scope for bound in promise} == {Scope.PIECES}
    assert [bound.failure_probability for bound in promise] == [1e-9, 0.0, 0.0]


def test_queries_that_move_count():
    """x = (-1, 1), A = 1, V = 3: eps times the largest `query_rest` is in it, beside the linear part and the keys'."""
    layer, sample = scalar_layer(1.0, 3.0), scalar_measure([-1.0, 1.0])
    block, norms = block_of(layer, sample), head_norms(layer)
    rows = Centred.of(block)
    pieces = Pieces.of(sample, 0.1, context=25.0, support=math.inf, sink=False)
    queries = query_rest(rows, norms, pieces, reach=pieces.reach, radius=1.0)
    keys = key_rest(block, rows, norms, pieces, masses=sample.masses, even=True).change(0.1)
    expected = 0.1 * 7 + 0.1 * float(queries.max()) + float(keys.min())
    promise = context_promise(layer, sample, 0.1, 25.0, constant=7.0)
    assert promise[0].output_change == pytest.approx(expected, rel=1e-9)


def test_without_interaction_the_change_is_that_of_the_mean_and_attained():
    """A = 0: outputs are V E x, which moves by |V| eps if everything moves together and never more, in any context."""
    layer, sample = scalar_layer(0.0, 3.0), scalar_measure([-1.0, 0.0, 0.4], [0.5, 0.3, 0.2])
    for context in (1.0, 60.0):
        promise = context_promise(layer, sample, 0.25, context)
        assert promise[0].output_change == pytest.approx(0.75)
    assert float(seen(layer, sample, sample.points + 0.25).w2_output[0]) == pytest.approx(0.75)


def test_reach_by_hand():
    """Masses 1/2, 1/3, 1/6 and N = 4: only the first can be two pieces of 1/4; the others go as wholes.

    So reaches are eps 2, eps sqrt(3), eps sqrt(6), cut at 0.3 by a support of 1.2 around the token at 0.9 - 1.8."""
    sample = scalar_measure([0.9, -0.9, 0.1], [1 / 2, 1 / 3, 1 / 6])
    assert least_masses(sample, 4.0).tolist() == pytest.approx([1 / 4, 1 / 3, 1 / 6])
    pieces = Pieces.of(sample, 0.5, context=4.0, support=math.inf, sink=True)
    assert pieces.reach.tolist() == pytest.approx([1.0, 0.5 * math.sqrt(3), 0.5 * math.sqrt(6), 0.0])
    assert pieces.inverse.tolist() == pytest.approx([2.0, 3.0, 6.0, 0.0])
    cut = Pieces.of(sample, 5.0, context=4.0, support=1.2, sink=False)
    assert cut.reach.tolist() == pytest.approx([2.1, 2.1, 1.3])
    assert [bool(can_split(sample, context)) for context in (1.0, 3.99, 4.0, 1e9)] == [False, False, True, True]


def test_norms_of_queries_say_why_they_do_not_apply():
    layer, sample = place(Case(norm="head"), 0)
    assert [bound.applies for bound in context_promise(layer, sample, 0.1, 60.0)] == [False] * 3


def test_nothing_moves_at_radius_zero():
    layer, sample = place(Case(), 0)
    assert [bound.output_change for bound in context_promise(layer, sample, 0.0, 1e4)][:2] == [0.0, 0.0]

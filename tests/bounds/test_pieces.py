import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robust_attn.bounds.pieces import Centred, Pieces, drawn
from robust_attn.spectral.norms import head_norms
from tests.bounds.pieces import FAR, ByHand, block_of, pieces_moved, random_pieces
from tests.bounds.slivers import inside
from tests.bounds.test_split_rows import query_row
from tests.cases import MORE_CASES, generator, random_layer, random_measure, scalar_layer, scalar_measure

STILL = [case for case in MORE_CASES if not case.rotary and case.masses not in ("padded", "copies")]


def test_what_queries_and_pieces_draw_by_hand():
    """x = (-1, 1), A = 1, V = 3, row 1 and queries within 0.2 of it, pieces that go 0.3, eps = 0.1: T = 1.2 * 0.3."""
    hand = ByHand()
    layer, sample = scalar_layer(1.0, 3.0), scalar_measure([-1.0, 1.0])
    pieces = Pieces(0.1, torch.full((2,), 0.3).double(), torch.full((2,), 2.0).double())
    rows = Centred.of(block_of(layer, sample))
    at = drawn(rows, head_norms(layer), pieces, torch.full((2,), 0.2).double())
    assert rows.value[0, 1].tolist() == pytest.approx([3 * d for d in hand.distance])
    assert at.ceiling[0, 1].tolist() == pytest.approx(hand.ceiling)
    assert at.drift[0, 1].tolist() == pytest.approx(hand.drift)
    assert at.slope[0, 1].tolist() == pytest.approx([1.2, 1.2])
    assert at.first[0, 1].tolist() == pytest.approx([math.expm1(0.36) / 0.36] * 2)
    assert at.second[0, 1].tolist() == pytest.approx([hand.second] * 2)
    for name in ("fall", "excess", "motion"):
        assert float(getattr(at, name)[0, 1]) == pytest.approx(getattr(hand, name)), name
    for weights in ((1.0, 2.0), (3.0, 0.5)):
        found = at.shifted(pieces, torch.tensor(weights).double().expand(1, 2, 2))
        assert float(found[0, 1]) == pytest.approx(hand.shifted(weights))


def test_a_short_reach_limits_what_z_loses_and_how_far_attention_goes():
    """Reach 1e-3 at eps 1: Z falls by T = 1e-3 G at most, and nothing drawn is farther than the reach."""
    layer, sample = scalar_layer(1.0, 3.0), scalar_measure([-1.0, 1.0])
    pieces = Pieces(1.0, torch.full((2,), 1e-3).double(), torch.full((2,), 2.0).double())
    at = drawn(Centred.of(block_of(layer, sample)), head_norms(layer), pieces, torch.zeros(2).double())
    assert at.fall[0].tolist() == pytest.approx([1e-3, 1e-3])
    assert at.motion[0].tolist() == pytest.approx([1e-3, 1e-3])
    assert at.shifted(pieces, torch.ones(1, 2, 2).double())[0].tolist() <= [2.0, 2.0]


@settings(max_examples=5)
@given(seed=st.integers(0, 200), case=st.sampled_from(STILL), distance=st.floats(0, 1), context=st.floats(4, 1e4))
def test_everything_drawn_is_dominated(seed, case, distance, context):
    """At a query within the distance of x_i, with pieces moved at random: P, Z(nu)/Z(mu), E|d|^2 and sums of shifts."""
    g, eps = generator(seed), 0.3
    layer = random_layer(case, g)
    sample = random_measure(case, g, samples=1, length=3).sample(0)
    base = random_pieces(sample, context, g)
    moved = inside(base, base.points + torch.randn(base.points.shape, generator=g).double(), eps=eps, support=FAR)
    pieces = Pieces.of(sample, eps, context=context, support=math.inf, sink=False)
    at = drawn(Centred.of(block_of(layer, sample)), head_norms(layer), pieces, torch.full((3,), distance).double())
    row = int(torch.randint(3, (1,), generator=g))
    step = torch.randn(5, generator=g, dtype=torch.float64)
    query = sample.points[row] + distance * step / step.norm()
    weights = torch.rand(3, generator=g).double()
    for head in range(layer.heads):
        slope, share = query_row(layer.head(head), sample, query, row)
        _, still = query_row(layer.head(head), sample, sample.points[row], row)
        ratio, drawing, motion = pieces_moved(sample, base, moved, slope, share)
        assert bool((share <= at.ceiling[head, row] * (1 + 1e-9)).all())
        assert bool(((share - still).abs() <= at.drift[head, row] * (1 + 1e-9) + 1e-15).all())
        assert math.exp(-float(at.fall[head, row])) <= ratio * (1 + 1e-9)
        assert abs(1 / ratio - 1) <= float(at.excess[head, row]) * (1 + 1e-9)
        assert motion <= float(at.motion[head, row]) * (1 + 1e-9)
        shifted = float(at.shifted(pieces, weights.expand(layer.heads, 3, 3))[head, row])
        assert float((weights * (drawing - still).abs()).sum()) <= shifted * (1 + 1e-9) + 1e-15

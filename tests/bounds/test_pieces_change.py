import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robust_attn.attention.layer import AttentionLayer
from robust_attn.bounds.pieces import Centred, Pieces, drawn
from robust_attn.bounds.pieces_change import FINEST, RATIO, _slope_rest, key_rest, query_rest
from robust_attn.spectral.lipschitz import QueryPart
from robust_attn.spectral.norms import head_norms
from tests.bounds.pieces import FAR, ByHand, block_of, random_pieces
from tests.bounds.slivers import inside
from tests.bounds.test_splitting_local import gamma
from tests.cases import MORE_CASES, Case, generator, random_layer, random_measure, scalar_layer, scalar_measure

WHOLE = [case for case in MORE_CASES if case.masses not in ("padded", "copies")]


@pytest.mark.parametrize("hand", [ByHand(), ByHand(far=3.0, slope=4.0)], ids=["near", "far"])
def test_the_derivative_of_a_query_by_hand(hand):
    """As in `ByHand`: weights that shift, w = d * 3d, 3d, d; pieces that move by `motion`; |V| = 3, |A| = 1.

    Near the difference of the two derivatives is what counts, far away both of them."""
    d = hand.distance
    layer, sample = scalar_layer(1.0, 3.0), scalar_measure([-1.0, 1.0])
    pieces = Pieces(hand.eps, torch.full((2,), hand.reach).double(), torch.full((2,), 2.0).double())
    rows, norms = Centred.of(block_of(layer, sample)), head_norms(layer)
    found = _slope_rest(rows, norms, pieces, drawn(rows, norms, pieces, torch.full((2,), hand.far).double()))
    variance = 4 * hand.p[0] * hand.p[1]
    steep = min(math.sqrt(variance + hand.shifted([x * x for x in d])), max(d))
    weights = hand.shifted([3 * x * x for x in d]) + hand.shifted([3 * x for x in d]) * hand.shifted(d)
    apart = weights + 2 * 3 * hand.motion * steep + 3 * hand.motion**2
    both = 3 * min(steep + hand.motion, max(d) + hand.reach) ** 2 + 3 * variance
    assert (apart < both) == (hand.far < 1)
    assert float(found[0, 1]) == pytest.approx(min(apart, both))


def test_a_long_way_is_held_by_the_hull():
    """x = (-1, 1), A = 6, V = 3, pieces that go 1.9: way by way the smaller of the derivative and of twice the hull.

    The hull around x = 1 is 3 (2 + 1.9), as all attention is there; ways are 2 RATIO^-FINEST, RATIO times that, ...;
    where the derivative grows beyond it the hull decides."""
    layer, sample = scalar_layer(6.0, 3.0), scalar_measure([-1.0, 1.0])
    reach = torch.full((2,), 1.9).double()
    pieces = Pieces(0.01, reach, torch.full((2,), 2.0).double())
    rows, norms = Centred.of(block_of(layer, sample)), head_norms(layer)
    found = float(query_rest(rows, norms, pieces, reach=reach, radius=1.0)[1])
    assert float(rows.hull(norms, pieces)[0][0, 1]) == pytest.approx(3 * (2 + 1.9), rel=1e-3)
    own = float(rows.value_deviation[0, 1] * rows.slope_deviation[0, 1])
    ways = [2 * RATIO ** (step - FINEST) for step in range(FINEST + 1)]
    slopes = [
        float(_slope_rest(rows, norms, pieces, drawn(rows, norms, pieces, reach.clamp_max(way)))[0, 1]) for way in ways
    ]
    hulls = [math.inf, *(2 * 3 * (2 + 1.9) / way + own for way in ways[:-1])]
    held = [min(pair) for pair in zip(slopes, hulls, strict=True)]
    best = held.index(max(held))
    assert found == pytest.approx(held[best], rel=1e-3)
    assert hulls[best] < slopes[best]


@settings(max_examples=5)
@given(seed=st.integers(0, 300), case=st.sampled_from(WHOLE), context=st.floats(4, 1e4))
def test_neither_keys_nor_queries_leave_their_linear_parts_by_more(seed, case, context):
    """Gamma_nu(x_i) - Gamma_mu(x_i) - (K D)_i in L2(mu), and Gamma_nu(x_i + d) - Gamma_nu(x_i) - Q_i d."""
    g, eps = generator(seed), 0.05
    layer = random_layer(case, g)
    sample = random_measure(case, g, samples=1, length=3).sample(0)
    base = random_pieces(sample, context, g)
    moved = inside(base, base.points + torch.randn(base.points.shape, generator=g).double(), eps=eps, support=FAR)
    home = torch.tensor([int((sample.points - point).norm(dim=-1).argmin()) for point in base.points])
    jacobian = layer.linearize(sample)
    mean = torch.zeros_like(sample.points).index_add(0, home, base.masses[:, None] * (moved - base.points))
    mean = mean / sample.masses[:, None]
    linear = jacobian.jvp(mean) - QueryPart(jacobian).jvp(mean)
    nu, norms, block = base.with_points(moved), head_norms(layer), block_of(layer, sample)
    rows = Centred.of(block)
    pieces = Pieces.of(sample, eps, context=context, support=math.inf, sink=False)
    here = torch.stack([gamma(layer, nu, *at(sample, row)) for row in range(3)])
    rest = here - layer(sample) - linear
    allowed = key_rest(block, rows, norms, pieces, masses=sample.masses, even=layer.even_slopes).change(eps)
    assert float((sample.masses * rest.square().sum(-1)).sum().sqrt()) <= float(allowed.min()) * (1 + 1e-9) + 1e-12
    slopes = query_rest(rows, norms, pieces, reach=pieces.reach[:3], radius=float(sample.radius))
    row = int(torch.randint(3, (1,), generator=g))
    step = torch.zeros_like(sample.points)
    step[row] = torch.randn(5, generator=g).double()
    step = step / step.norm() * float(pieces.reach[row]) * float(torch.rand(1, generator=g))
    there = gamma(layer, nu, sample.points[row] + step[row], int(sample.positions[row]))
    off = there - here[row] - QueryPart(jacobian).jvp(step)[row]
    assert float(off.norm()) <= float(slopes[row] * step.norm()) * (1 + 1e-9) + 1e-12


def at(sample, row):
    return sample.points[row], int(sample.positions[row])


def test_a_held_head_costs_its_hull_and_its_linear_part():
    """A = 0, logits 2 x, V = 3, x = (-1, 1), eps = 0.1, D = 0.5, both rows held: P = (1-p, p), p = e^4/(1 + e^4).

    The hull is 6p + 1.5; the linear part 0.1 (2 sum_j P_j^2 (2 d_j + 3)^2)^{1/2}, d = (6p, 6(1-p))."""
    layer = AttentionLayer.single_head(*torch.tensor([[[0.0]], [[3.0]]]).double(), torch.tensor([2.0]).double())
    sample = scalar_measure([-1.0, 1.0])
    pieces = Pieces.of(sample, 0.1, context=25.0, support=math.inf, sink=False)
    block = block_of(layer, sample)
    found = key_rest(block, Centred.of(block), head_norms(layer), pieces, masses=sample.masses, even=True)
    p = 1 / (1 + math.exp(-4))
    linear = 0.1 * math.sqrt(2 * (((1 - p) * (12 * p + 3)) ** 2 + (p * (12 * (1 - p) + 3)) ** 2))
    one = 6 * p + 1.5 + linear
    assert found.held.sqrt().tolist() == pytest.approx([0.0, *[one / math.sqrt(2)] * 7], rel=1e-6)


def test_steep_heads_are_held_by_their_hull_where_that_is_less():
    """One head of two has logits 40 times as steep: held, it costs its hull; free, e^{40 D}."""
    layer = random_layer(Case(bias=False), generator(0), scale=0.5)
    layer.query[0] *= 40
    sample = random_measure(Case(), generator(1), samples=1, length=6).sample(0)
    pieces = Pieces.of(sample, 0.05, context=1e4, support=math.inf, sink=False)
    block = block_of(layer, sample)
    found = key_rest(
        block, Centred.of(block), head_norms(layer), pieces, masses=sample.masses, even=layer.even_slopes
    ).change(0.05)
    assert float(found.min()) < 0.05 * float(found[0])
    assert math.isfinite(float(found.min()))

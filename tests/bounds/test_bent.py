"""What norms of queries and keys add on a ball: each inequality of the proof, and a case by hand."""

import math
from dataclasses import replace

import pytest
import torch

from robust_attn.attention.head_norm import HeadNorm
from robust_attn.attention.jacobian import project
from robust_attn.bounds.bent import Bent
from tests.cases import NORM_CASES, generator, random_layer, random_measure, scalar_layer, scalar_measure

REACH = 0.15


def logits(layer, measure, points):
    parts = project(layer, measure.with_points(points))
    return layer.scale * parts.q @ parts.k.transpose(-1, -2)


def along(layer, measure, direction):
    """The derivative of the logits along a direction, as a function of the points."""
    return lambda points: torch.func.jvp(lambda x: logits(layer, measure, x), (points,), (direction,))[1]


@pytest.mark.parametrize("case", NORM_CASES, ids=str)
def test_what_bends_dominates_logits_and_slopes_on_the_ball(case):
    """Logits from their linear part, slopes in either token, and their second derivatives, at random moves."""
    case = replace(case, sinks=False)
    layer, measure = random_layer(case, generator(3)), random_measure(case, generator(4), samples=1)
    bent = Bent.of(layer, measure)
    reach = REACH * measure.present.double()
    bend = bent.on(reach, slice(0, measure.length), sink=False)
    query, _, key, _ = bent.steepness(torch.zeros_like(reach))
    steep_query, bent_query, steep_key, bent_key = bent.steepness(reach)
    shown = measure.present[0][:, None] & measure.present[0]
    for seed in range(6):
        d = torch.randn(measure.points.shape, generator=generator(seed), dtype=torch.float64)
        d = REACH * d / d.norm(dim=-1, keepdim=True) * measure.present[..., None]
        moved = measure.with_points(measure.points + d)
        base, there = project(layer, measure), project(layer, moved)
        for made, start, slope, steep, curve in (
            (there.q, base.q, query, steep_query, bent_query),
            (there.k, base.k, key, steep_key, bent_key),
        ):
            change = (made - start).norm(dim=-1)
            assert (change <= steep * REACH * (1 + 1e-9))[0][:, measure.present[0]].all()
            assert (change <= slope * REACH + curve * REACH**2 / 2 + 1e-12)[0][:, measure.present[0]].all()
        line = along(layer, measure, d)(measure.points)
        off = (logits(layer, measure, moved.points) - logits(layer, measure, measure.points) - line).abs()
        both = bend.interaction[:, None, None] * REACH**2
        assert (off <= bend.logit_shift + both + 1e-12)[0][:, shown].all()
        second = torch.func.jvp(along(layer, measure, d), (moved.points,), (d,))[1]
        allowed = (bend.pair + bend.own[..., None] + 2 * bend.interaction[:, None, None]) * REACH**2
        assert (second.abs() <= allowed * (1 + 1e-9) + 1e-12)[0][:, shown].all()


def test_the_second_derivative_of_a_query_by_hand():
    """k = 1, W = 2, x = 3, eps = 28: z = 6, rho = 8, |Dq| <= 2/8 and |D^2 q| <= 4 (2/sqrt 3) / 64; keys as they are."""
    norm = HeadNorm(torch.ones(1, 1).double(), torch.zeros(1, 1).double(), 28.0)
    layer = replace(scalar_layer(2.0), query_norm=norm)
    first, second, key, still = Bent.of(layer, scalar_measure([3.0]), unit=0.0).steepness(torch.zeros(1).double())
    assert (float(first), float(second)) == pytest.approx((1 / 4, 4 * 2 / math.sqrt(3) / 64))
    assert (float(key), float(still)) == pytest.approx((1.0, 0.0))
    farther = Bent.of(layer, scalar_measure([3.0]), unit=0.0).steepness(torch.full((1,), 5.0).double())[0]
    assert float(farther) == pytest.approx(2 / math.sqrt(28))  # zero is in reach


def test_a_norm_that_does_nothing_leaves_nothing_bent():
    """An eps far above |z|^2 / k makes N linear: gain sqrt(eps) undoes it, and what bends is next to nothing."""
    case = replace(NORM_CASES[1], norm="none", rotary=False)
    layer, measure = random_layer(case, generator(3)), random_measure(case, generator(4), samples=1)
    idle = HeadNorm(torch.full((2, 4), 1e6).double(), torch.zeros(2, 4).double(), 1e12)
    normed = replace(
        layer, query_norm=idle, key_norm=replace(idle, gain=idle.gain[: layer.groups], shift=idle.shift[: layer.groups])
    )
    assert (normed(measure) - layer(measure)).abs().max() <= 1e-9
    bend = Bent.of(normed, measure).on(torch.full_like(measure.masses, REACH), slice(0, 4), sink=False)
    assert float(bend.logit_shift.max()) <= 1e-4
    assert float(bend.pair.max()) <= 1e-4

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.bounds.split_rows import near, psi_1, psi_2, split_rows
from robust_attn.spectral.norms import head_norms
from tests.cases import MORE_CASES, generator, random_layer, random_measure, scalar_layer, scalar_measure

STILL = [case for case in MORE_CASES if not case.rotary and case.masses != "padded"]


def test_psi_by_hand():
    """psi_1(1) = 1 - 1/e, psi_2(1) = 1 - 2/e; they decrease from 1 and 1/2; the series exceeds psi_2 by t^3/30."""
    t = torch.tensor([0.0, 1.0, 1e6]).double()
    assert psi_1(t).tolist() == pytest.approx([1.0, 1 - 1 / math.e, 1e-6])
    assert psi_2(t).tolist() == pytest.approx([0.5, 1 - 2 / math.e, 1e-12])
    grid = torch.linspace(0, 30, 3001).double()
    for psi in (psi_1, psi_2):
        assert bool((psi(grid).diff() < 0).all())
    s = torch.linspace(0, 1, 20001).double()
    for small in (1e-4, 0.019, 0.021):
        exact = float(torch.trapezoid(s * torch.exp(-small * s), s))
        assert -1e-9 <= float(psi_2(torch.tensor([small]).double())) - exact <= small**3 / 30 + 1e-9


def test_peak_and_slopes_by_hand():
    """A = 2, x = (0, 1), R = 3: row 1 has g = 2, Z = (1 + e^2)/2 and draws e^6 / Z at most; its mean slope is
    2 P_11, P_11 = e^2 / (1 + e^2). Row 0 has g = 0, Z = 1, peak 1, mean slope 1."""
    rows = split_rows(scalar_layer(2.0), scalar_measure([0.0, 1.0]), support=3.0)
    assert rows.key_slope[0].tolist() == pytest.approx([0.0, 2.0], abs=1e-12)
    assert rows.log_peak[0].tolist() == pytest.approx([0.0, 6 - math.log((1 + math.exp(2)) / 2)])
    assert rows.mean_slope[0].tolist() == pytest.approx([1.0, 2 / (1 + math.exp(-2))])
    assert rows.unit_gram[1].tolist() == [[1.0]]


@given(seed=st.integers(0, 60), case=st.sampled_from(STILL), distance=st.floats(0, 2))
def test_near_dominates_every_query_in_reach_and_every_point_of_the_ball(seed, case, distance):
    """At a query y within the distance of x_i: P, the draw e^<g, z> / Z of any z of the ball, and the Taylor terms."""
    g = generator(seed)
    layer = random_layer(case, g)
    sample = random_measure(case, g, samples=1).sample(0)
    support = 1.5 * float(sample.radius)
    at = near(split_rows(layer, sample, support=support), head_norms(layer), distance, support=support)
    row = int(torch.randint(sample.length, (1,), generator=g))
    step = torch.randn(5, generator=g, dtype=torch.float64)
    moved = sample.points.clone()
    moved[row] += distance * step / step.norm()
    points = torch.randn(64, 5, generator=g, dtype=torch.float64)
    points = points / points.norm(dim=-1, keepdim=True) * support * torch.rand(64, 1, generator=g).sqrt()
    for head in range(layer.heads):
        slope, share = query_row(layer.head(head), sample, moved[row], row)
        seen = share > 0
        assert bool((share <= at.ceiling[head, row] * (1 + 1e-9)).all())
        assert float(slope.norm()) <= float(at.slope[head, row]) * (1 + 1e-9)
        along = support * slope / slope.norm().clamp_min(1e-300)
        t = (torch.cat([points, along[None]])[:, None] - sample.points[seen]) @ slope
        draw = share[seen] / sample.masses[seen]
        assert bool((draw * t.exp() <= at.log_peak[head, row].exp() * (1 + 1e-9)).all())
        first, second = (field[head, row, seen].exp() for field in (at.log_first, at.log_second))
        assert bool((draw * torch.expm1(t).abs() <= first * t.abs() * (1 + 1e-9)).all())
        assert bool((draw * (torch.expm1(t) - t) <= second * t**2 * (1 + 1e-9) + 1e-15).all())


def query_row(
    head: AttentionLayer, sample: TokenMeasure, query: torch.Tensor, row: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Slope in the attended point and attention of one head for a query at the position of `row`."""
    slope = head.scale * head.key[0].T @ (head.query[0] @ query + head.query_bias[0])
    weights = torch.where(sample.positions <= sample.positions[row], sample.masses, 0.0)
    if head.mask == "none":
        weights = sample.masses
    return slope, (sample.points @ slope + weights.log()).softmax(0)

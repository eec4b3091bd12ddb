import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robust_attn.attacks.ascent import ascend
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.rotary import Rotary
from robust_attn.bounds import propagation
from robust_attn.bounds.propagation import interval_upper, projection_radii, row_lengths
from robust_attn.budget import BUDGETS, Frobenius, PerToken, Wasserstein
from tests.cases import (
    CASES,
    MORE_CASES,
    generator,
    one_sample,
    random_layer,
    random_measure,
    scalar_layer,
    scalar_measure,
)


def double(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_two_tokens_by_hand():
    """A = log(3)/2, X = (1, -1), each token by r = sqrt(2) - 1: queries and keys move by log(3)/2 r and r, logits by
    log(3)/2 (r + r (1 + r)) = log(3)/2. P_11 = 3/4 lies between 1/2 and 9/10, P_12 between 1/10 and 1/2. Row 1 is 1/2,
    at most 9/10 (1 + r) - 1/10 (1 - r) = 8/10 + r, at least 1/2 (1 - r) - 1/2 (1 + r) = -r: it moves by at most
    1/2 + r. Row 2 is its mirror image."""
    layer, measure, r = scalar_layer(math.log(3) / 2, 5.0), scalar_measure([1.0, -1.0]), math.sqrt(2) - 1
    assert interval_upper(layer, measure, PerToken(r)).output_change == pytest.approx(5 * (0.5 + r))
    assert interval_upper(layer, measure, Frobenius(r)).output_change == pytest.approx(5 * (0.5 + r) * math.sqrt(2))
    reach = Wasserstein(r / math.sqrt(2))  # masses 1/2, so each token alone reaches r
    assert interval_upper(layer, measure, reach).output_change == pytest.approx(5 * (0.5 + r))


def test_a_way_up_longer_than_the_way_down_counts_as_well():
    """The same tokens negated by the output projection: up and down change places, the bound does not."""
    measure, r = scalar_measure([1.0, -1.0]), math.sqrt(2) - 1
    found = interval_upper(scalar_layer(math.log(3) / 2, -5.0), measure, PerToken(r))
    assert found.output_change == pytest.approx(5 * (0.5 + r))


def test_one_token_is_a_box_around_a_linear_map():
    """n = 1: f = V x with V = diag(3, 4), whose outputs fill the box of corners (3 r, 4 r): 5 r, where |V| r = 4 r."""
    V = torch.diag(double(3, 4))
    layer = AttentionLayer.single_head(torch.eye(2).double(), V)
    found = interval_upper(layer, TokenMeasure.uniform(double(0.3, -2)[None]), Frobenius(0.1))
    assert found.output_change == pytest.approx(0.5)


@pytest.mark.parametrize("mask", list(Mask))
def test_no_interaction_is_solved_exactly(mask):
    """A = 0, d = 1: every row is an average, moved by |V| r when every token moves by r: exact for per-token budgets.
    In the Frobenius norm intervals let every token use the whole budget: sqrt(n) |V| r; unmasked |V| r is true."""
    zero = torch.zeros(1, 1).double()
    layer = AttentionLayer.single_head(zero, torch.full((1, 1), 3.0).double(), mask=mask)
    measure = TokenMeasure.uniform(torch.linspace(-2, 5, 7).double()[:, None])
    assert interval_upper(layer, measure, PerToken(0.2)).output_change == pytest.approx(0.6)
    assert interval_upper(layer, measure, Frobenius(0.2)).output_change == pytest.approx(0.6 * math.sqrt(7))


@given(
    seed=st.integers(0, 500),
    case=st.sampled_from(MORE_CASES),
    kind=st.sampled_from(sorted(BUDGETS)),
    radius=st.sampled_from([1e-3, 0.03, 0.3, 2.0]),
    scale=st.sampled_from([0.3, 1.0]),
)
def test_ascent_never_leaves_the_intervals(seed, case, kind, radius, scale):
    g, budget = generator(seed), BUDGETS[kind](radius)
    layer, measure = random_layer(case, g, scale=scale), random_measure(case, g)
    found = ascend(layer, measure, budget, budget.sample(measure, g), steps=12)
    for sample in range(2):
        bound = interval_upper(layer, measure.sample(sample), budget)
        assert float(found.output_change[sample]) <= bound.output_change


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_row_stays_in_its_own_interval(case):
    """Row by row, and with every atom moved by its whole reach, so that rows of little weight count too."""
    g = generator(7)
    layer, measure = random_layer(case, g), random_measure(case, g, samples=1).sample(0)
    measure = propagation.present_atoms(measure)
    reach = torch.rand(measure.length, generator=g, dtype=torch.float64)
    rows = propagation.row_changes(layer, measure, reach)
    start = torch.randn(50, *measure.points.shape, generator=g, dtype=torch.float64)
    moved = measure.points + reach[:, None] * start / start.norm(dim=-1, keepdim=True)
    for points in moved:
        assert ((layer(measure.with_points(points)) - layer(measure)).norm(dim=-1) <= rows).all()


@settings(max_examples=15)
@given(seed=st.integers(0, 100), case=st.sampled_from(MORE_CASES), kind=st.sampled_from(sorted(BUDGETS)))
def test_monotone_in_the_radius_and_nothing_at_radius_zero(seed, case, kind):
    """At radius zero the margin for rounding remains, 1e-11 of the attention weights."""
    g = generator(seed)
    layer, measure = random_layer(case, g), random_measure(case, g, samples=1).sample(0)
    changes = [interval_upper(layer, measure, BUDGETS[kind](r)).output_change for r in (0.0, 0.01, 0.1, 1.0, 10.0)]
    assert changes == sorted(changes)
    assert 0 <= changes[0] < 1e-8 * changes[1]


@given(seed=st.integers(0, 100), factor=st.floats(0.1, 10))
def test_scaling_laws(seed, factor):
    """f -> c f multiplies the bound; X -> t X, r -> t r, W_Q -> W_Q / t, W_K -> W_K / t leaves the logits: t f."""
    case, g = CASES[0], generator(seed)
    layer, measure = random_layer(case, g), random_measure(case, g, samples=1).sample(0)
    base = interval_upper(layer, measure, Frobenius(0.1)).output_change
    louder = replace(layer, output=-factor * layer.output)
    assert interval_upper(louder, measure, Frobenius(0.1)).output_change == pytest.approx(factor * base)
    wider = replace(layer, query=layer.query / factor, key=layer.key / factor)
    scaled = interval_upper(wider, measure.with_points(factor * measure.points), Frobenius(0.1 * factor))
    assert scaled.output_change == pytest.approx(factor * base)


@given(seed=st.integers(0, 200))
def test_the_interval_of_a_mean_is_attained_at_corners(seed):
    """Over all corners of the box of three weights and three values, on both sides of zero and across it."""
    g = generator(seed)
    p, rise, fall, radius = torch.rand(4, 1, 1, 3, generator=g, dtype=torch.float64)
    fall, radius = fall * p, 2 * radius.transpose(-1, -2)
    value = torch.randn(1, 3, 1, generator=g, dtype=torch.float64)
    up, down = propagation.mean_interval(rise, fall, p, value, radius)
    ends = torch.stack([(p - fall).flatten(), (p + rise).flatten()]), torch.stack([value - radius, value + radius])
    corners = torch.cartesian_prod(*[torch.arange(2)] * 6)
    weights, values = ends[0][corners[:, :3], torch.arange(3)], ends[1].flatten(1)[corners[:, 3:], torch.arange(3)]
    means = (weights * values).sum(-1) - (p.flatten() * value.flatten()).sum()
    assert float(up) == pytest.approx(float(means.max()))
    assert float(down) == pytest.approx(-float(means.min()))


def test_the_interval_of_each_projection_is_attained():
    """A token moved by its reach along a row of the projection moves that coordinate to the end of its interval."""
    case = next(case for case in CASES if case.rotary and case.groups == 2)
    g = generator(3)
    layer, measure = random_layer(case, g), random_measure(case, g, samples=1).sample(0)
    names = ("query", "query_bias", "output")  # four heads that share two groups of keys and values
    layer = replace(layer, **{name: torch.cat([getattr(layer, name)] * 2) for name in names})
    reach = torch.rand(measure.length, generator=g, dtype=torch.float64)
    radii = projection_radii(layer, measure, reach)
    unit = torch.eye(layer.width).double()
    columns = [
        propagation.project(layer, measure.with_points(axis.expand_as(measure.points))) for axis in (0 * unit[0], *unit)
    ]
    for name in ("q", "k", "v"):
        rows = torch.stack([getattr(column, name) - getattr(columns[0], name) for column in columns[1:]])
        assert torch.allclose(rows.norm(dim=0) * reach[:, None], getattr(radii, name), rtol=1e-12)


def test_rows_that_a_rotation_cancels_keep_a_length_that_is_no_lower_than_zero():
    """Equal rows a = b turned by pi/4: cos a - sin b = 0 and cos b + sin a = sqrt(2) a, in float32 angles."""
    weights = double(1, 2).expand(1, 2, 2)
    lengths = row_lengths(weights, Rotary(torch.tensor([math.pi / 4])), torch.tensor([0, 1]))
    assert lengths[0, 0].tolist() == pytest.approx([math.sqrt(5)] * 2)
    assert lengths[0, 1].tolist() == pytest.approx([0.0, math.sqrt(10)], abs=1e-6)


@pytest.mark.parametrize("kind", sorted(BUDGETS))
def test_padding_changes_nothing(kind):
    g, case = generator(5), CASES[0]
    layer = random_layer(case, g)
    points = torch.randn(6, 5, generator=g, dtype=torch.float64)
    alone = TokenMeasure.uniform(points[:4])
    padded = TokenMeasure.padded(points, torch.tensor(4))
    expected = interval_upper(layer, alone, BUDGETS[kind](0.1))
    assert interval_upper(layer, padded, BUDGETS[kind](0.1)).output_change == pytest.approx(expected.output_change)


def test_blocks_of_rows_give_the_same_numbers(monkeypatch):
    g, case = generator(5), CASES[-1]
    layer, measure = random_layer(case, g), random_measure(case, g, samples=1).sample(0)
    whole = interval_upper(layer, measure, Frobenius(0.1))
    monkeypatch.setattr(propagation, "BLOCK_ELEMENTS", 1)
    assert interval_upper(layer, measure, Frobenius(0.1)).output_change == pytest.approx(whole.output_change, rel=1e-12)


def test_it_is_shown_and_never_certifies():
    bound = interval_upper(scalar_layer(1.0), scalar_measure([0.0, 1.0]), Frobenius(0.1))
    assert (bound.name, bound.scope, bound.applies, bound.comparator) == ("comparator.ibp", "ball", True, True)
    assert not bound.certifies


def test_attention_far_from_every_limit_does_not_overflow():
    """Logits of 1e4 and shifts as large: the weights' intervals become [0, 1], the bound stays a number."""
    bound = interval_upper(scalar_layer(1e4), scalar_measure([1.0, -1.0, 0.5]), PerToken(1.0))
    assert math.isfinite(bound.output_change)
    found = ascend(
        scalar_layer(1e4),
        one_sample(scalar_measure([1.0, -1.0, 0.5])),
        PerToken(1.0),
        torch.ones(1, 3, 1).double(),
        steps=5,
    )
    assert float(found.output_change[0]) <= bound.output_change

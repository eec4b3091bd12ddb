"""Each inequality behind the certificates on a ball, and the whole of them against ascent."""

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
from robust_attn.bounds import rows
from robust_attn.bounds.ball import ball_norms, higher_norms
from robust_attn.budget import BUDGETS, Frobenius, Wasserstein
from robust_attn.spectral.lipschitz import local_lipschitz
from robust_attn.spectral.matrix_norms import covariance_norm_upper
from robust_attn.spectral.norms import head_norms
from tests.cases import (
    CASES,
    MORE_CASES,
    Case,
    generator,
    one_sample,
    random_layer,
    random_measure,
    scalar_layer,
    scalar_measure,
)

CASE = st.sampled_from(MORE_CASES)


@settings(max_examples=24)
@given(seed=st.integers(0, 10**6), case=CASE, kind=st.sampled_from(sorted(BUDGETS)), log_eps=st.floats(-4, 0.5))
def test_curvature_dominates_second_derivatives_on_the_ball(seed, case, kind, log_eps):
    """|f''[d, d]| by nested forward mode at a random point of the ball, in the weighted norm."""
    budget = BUDGETS[kind](10**log_eps)
    layer, measure = random_layer(case, generator(seed)), random_measure(case, generator(seed + 1))
    (norms,) = ball_norms(layer, head_norms(layer), measure, (budget,))
    inside = measure.points + budget.sample(measure, generator(seed + 2)) * 0.9
    direction = budget.sample(measure, generator(seed + 3))
    weights = budget.weights(measure)

    def size(field):
        return (weights * field.square().sum(-1)).sum(-1).sqrt()

    def slope(points):
        return torch.func.jvp(lambda p: layer(measure.with_points(p)), (points,), (direction,))[1]

    second = torch.func.jvp(slope, (inside,), (direction,))[1]
    first = slope(inside)
    assert (size(second) <= norms.curvature * size(direction) ** 2 * (1 + 1e-9)).all()
    assert (size(first) <= norms.closed_form * size(direction) * (1 + 1e-9)).all()


@settings(max_examples=16)
@given(seed=st.integers(0, 10**6), case=CASE, kind=st.sampled_from(sorted(BUDGETS)), log_eps=st.floats(-4, 1))
def test_hull_dominates_ascent_row_by_row(seed, case, kind, log_eps):
    budget = BUDGETS[kind](10**log_eps)
    layer, measure = random_layer(case, generator(seed)), random_measure(case, generator(seed + 1))
    (norms,) = ball_norms(layer, head_norms(layer), measure, (budget,))
    found = ascend(layer, measure, budget, budget.sample(measure, generator(seed + 2)), steps=10)
    change = (layer(measure.with_points(measure.points + found.displacement)) - layer(measure)).norm(dim=-1)
    assert (change <= norms.hull_rows * (1 + 1e-9) + 1e-13).all()


def test_hull_by_hand():
    """A = 0, x = (0, 1), V = 1, Frobenius 0.5: the mean is 1/2, the farthest value 1/2 away, so 1/2 + 1/2 per row."""
    layer, measure = scalar_layer(0.0), one_sample(scalar_measure([0.0, 1.0]))
    (norms,) = ball_norms(layer, head_norms(layer), measure, (Frobenius(0.5),))
    assert norms.hull_rows.tolist()[0] == pytest.approx([1.0, 1.0])


def test_no_interaction_is_solved_exactly():
    """A = 0: the map is linear, so its curvature is zero and the closed form at the tokens is |V|."""
    layer, measure = scalar_layer(0.0, 3.0), one_sample(scalar_measure([0.0, 1.0, 4.0], [0.2, 0.3, 0.5]))
    (norms,) = ball_norms(layer, head_norms(layer), measure, (Wasserstein(0.5),))
    assert float(norms.curvature) == 0.0
    assert float(norms.closed_form) == pytest.approx(3.0, rel=1e-9)


def test_one_token_is_affine():
    case = CASES[0]
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1), length=1)
    (norms,) = ball_norms(layer, head_norms(layer), measure, (Wasserstein(1e-9),))
    assert (norms.closed_form <= head_norms(layer).value.sum() * (1 + 1e-6)).all()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_closed_form_at_the_tokens_dominates_the_exact_constant(case):
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1))
    for kind in BUDGETS.values():
        (norms,) = ball_norms(layer, head_norms(layer), measure, (kind(0.0),))
        exact = local_lipschitz(layer, measure, weights=kind(0.0).weights(measure)).lower
        assert (exact <= norms.centre * (1 + 1e-9)).all()
        assert (torch.minimum(norms.centre, norms.centre_blocks) <= norms.closed_form * (1 + 1e-9)).all()
        assert (exact <= norms.closed_form * (1 + 1e-9)).all()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_row_blocks_do_not_change_the_values(case, monkeypatch):
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1))
    (whole,) = ball_norms(layer, head_norms(layer), measure, (Wasserstein(0.1),))
    monkeypatch.setattr(rows, "PAIR_ELEMENTS", 1)
    (blocks,) = ball_norms(layer, head_norms(layer), measure, (Wasserstein(0.1),))
    assert torch.allclose(whole.curvature, blocks.curvature, rtol=1e-12)
    assert torch.allclose(whole.closed_form, blocks.closed_form, rtol=1e-12)
    assert torch.allclose(whole.hull_rows, blocks.hull_rows, rtol=1e-12)


@pytest.mark.parametrize("size", [1e3, 1e6])
def test_huge_radii_and_logits_stay_numbers(size):
    """Nothing becomes NaN: values are finite or infinite, and infinite ones do not certify."""
    layer, measure = scalar_layer(-size), one_sample(scalar_measure([-3.0, 0.0, 2.0]))
    (norms,) = ball_norms(layer, head_norms(layer), measure, (Wasserstein(size),))
    assert not torch.isnan(norms.curvature).any()
    assert not torch.isnan(norms.closed_form).any()
    assert torch.isfinite(norms.hull_rows).all()


@given(seed=st.integers(0, 200))
def test_heads_together_dominate_any_one_displacement(seed):
    """sum_h w_h <g_h, d>^2 <= lambda_max |d|^2, and the drift of the slopes adds to the square root."""
    g = generator(seed)
    slopes = torch.randn(4, 6, generator=g, dtype=torch.float64)
    weights = torch.rand(4, generator=g, dtype=torch.float64)
    moves = torch.randn(4, 6, generator=g, dtype=torch.float64)
    sizes = moves.norm(dim=-1)
    gram = weights.sqrt()[:, None] * (slopes @ slopes.T) * weights.sqrt()
    bound = (covariance_norm_upper(gram).sqrt() + (weights * sizes**2).sum().sqrt()) ** 2
    d = torch.randn(6, generator=g, dtype=torch.float64)
    assert (weights * ((slopes + moves) @ d) ** 2).sum() <= bound * d.square().sum() * (1 + 1e-12)


def test_one_token_by_hand():
    """One token at 0, A = 2, V = 3, radius 1/2: attention is 1 and has no variance; values move by 3/2, slopes by 1.

    Value deviation 3/2, slope deviation 2/2 = 1, key slope 1, distances 2 * 3/2 = 3 and 2. Columns: 3 + 3/2 * 1;
    blocks: 3 + 3 * 1 + 3/2. Curvature: none of the keys; of the query the least of 1 * 3 * 2^2, 3 * 1^2, 2 * 3/2 * 1.
    (The margin of 1e-11 on "variance zero" enters through its root.)
    """
    layer, measure = scalar_layer(2.0, 3.0), one_sample(scalar_measure([0.0]))
    (norms,) = ball_norms(layer, head_norms(layer), measure, (Frobenius(0.5),))
    assert float(norms.centre) == pytest.approx(3.0)
    assert float(norms.centre_blocks) == pytest.approx(3.0)
    assert float(norms.closed_form) == pytest.approx(4.5, rel=1e-5)
    assert float(norms.curvature) == pytest.approx(3.0, rel=1e-4)
    assert float(norms.hull_rows) == pytest.approx(1.5)


def test_two_tokens_by_hand():
    """x = (0, 1), A = k = log 3, V = 1: P = (1/2, 1/2) and (1/4, 3/4), variances 1/4 and 3/16, key slopes 0 and k.

    Columns: the second one, 1/2 + 3/4 (1 + 3/16 k^2), its root plus the query part k / 4. Blocks: [[1/2 + k/4, 1/2],
    [1/4 (1 + 3/4 k), 3/4 (1 + 1/4 k) + 3/16 k]]. Hull: the farther value, 1/2 and 3/4 from the means, and the radius.
    """
    k = math.log(3)
    layer, measure = scalar_layer(k), one_sample(scalar_measure([0.0, 1.0]))
    (norms,) = ball_norms(layer, head_norms(layer), measure, (Frobenius(1e-3),))
    blocks = [[1 / 2 + k / 4, 1 / 2], [1 / 4 * (1 + 3 / 4 * k), 3 / 4 * (1 + k / 4) + 3 / 16 * k]]
    assert float(norms.centre) == pytest.approx(math.sqrt(1 / 2 + 3 / 4 * (1 + 3 / 16 * k**2)) + k / 4)
    assert float(norms.centre_blocks) == pytest.approx(float(torch.linalg.matrix_norm(torch.tensor(blocks), 2)))
    assert norms.hull_rows.tolist()[0] == pytest.approx([0.501, 0.751])


@given(
    seed=st.integers(0, 10**6),
    case=CASE,
    kind=st.sampled_from(sorted(BUDGETS)),
    power=st.integers(-4, 4),
    c=st.floats(0.1, 10),
)
def test_scaling_laws(seed, case, kind, power, c):
    """X -> tX, eps -> t eps, W_Q and W_K -> /t: logits and constants stay, curvature is divided and the hull multiplied
    by t; V -> cV multiplies all by c; the curvature up to ties between equally good ways to hold a row."""
    t, budget = 2.0**power, BUDGETS[kind]
    layer, measure = random_layer(case, generator(seed)), random_measure(case, generator(seed + 1))
    scaled = replace(layer, query=layer.query / t, key=layer.key / t, output=layer.output * c)
    (before,) = ball_norms(layer, head_norms(layer), measure, (budget(0.1),))
    (after,) = ball_norms(scaled, head_norms(scaled), measure.with_points(t * measure.points), (budget(0.1 * t),))
    for name, factor in {"centre": c, "centre_blocks": c, "closed_form": c, "hull_rows": c * t}.items():
        assert torch.allclose(getattr(after, name), factor * getattr(before, name), rtol=1e-6), name
    assert torch.allclose(after.curvature, c * before.curvature / t, rtol=5e-2)


@given(seed=st.integers(0, 10**6), case=CASE, kind=st.sampled_from(sorted(BUDGETS)), log_eps=st.floats(-4, 1))
def test_hull_dominates_random_moves_row_by_row(seed, case, kind, log_eps):
    budget = BUDGETS[kind](10**log_eps)
    layer, measure = random_layer(case, generator(seed)), random_measure(case, generator(seed + 1))
    (norms,) = ball_norms(layer, head_norms(layer), measure, (budget,))
    moved = measure.with_points(measure.points + budget.sample(measure, generator(seed + 2)))
    assert ((layer(moved) - layer(measure)).norm(dim=-1) <= norms.hull_rows * (1 + 1e-9) + 1e-13).all()


@settings(max_examples=16)
@given(seed=st.integers(0, 10**6), case=CASE, kind=st.sampled_from(sorted(BUDGETS)))
def test_ascent_at_tiny_radii_stays_below_the_constants_at_the_tokens(seed, case, kind):
    """Radius 1e-7: what ascent gains per radius is at most the constants at the tokens, up to the curvature."""
    budget = BUDGETS[kind](1e-7)
    layer, measure = random_layer(case, generator(seed)), random_measure(case, generator(seed + 1))
    (norms,) = ball_norms(layer, head_norms(layer), measure, (budget,))
    found = ascend(layer, measure, budget, budget.sample(measure, generator(seed + 2)), steps=10)
    moved = layer(measure.with_points(measure.points + found.displacement)) - layer(measure)
    weights, eps = budget.weights(measure), budget.hilbert_radius(measure)
    gained = (weights * moved.square().sum(-1)).sum(-1).sqrt()
    allowed = torch.minimum(norms.centre, norms.centre_blocks) * eps + norms.curvature * eps**2 / 2
    assert (gained <= allowed * (1 + 1e-6)).all()


@pytest.mark.parametrize("kind", sorted(BUDGETS))
def test_one_token_attains_the_hull(kind):
    """n = 1: the map is V x, so the row changes by |V| eps and by no more."""
    layer, measure = scalar_layer(-8.0, 3.0), one_sample(scalar_measure([0.7]))
    (norms,) = ball_norms(layer, head_norms(layer), measure, (BUDGETS[kind](0.5),))
    moved = layer(measure.with_points(measure.points + 0.5)) - layer(measure)
    assert float(moved) == pytest.approx(1.5)
    assert float(norms.hull_rows) == pytest.approx(1.5)


@pytest.mark.parametrize("mask", list(Mask))
def test_curvature_by_hand(mask):
    """Tokens (1, 0) and (-1, 0), s_ij = k x_i2 x_j1, V = I: queries are zero, so attention is 1/2 and keys do not pull.

    Slopes of the logits in the query +-k, values +-1: the third moment of the query costs 1 * k^2; the cross terms
    2 k sqrt(1/2) from moving values and as much from moving both: k^2 + 2 sqrt(2) k together. Causal: row 0 sees itself
    alone and has no curvature, row 1 has the same.
    """
    k = 1.5
    layer = AttentionLayer.single_head(torch.tensor([[0.0, k], [0.0, 0.0]]).double(), torch.eye(2).double(), mask=mask)
    measure = one_sample(TokenMeasure.uniform(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]).double()))
    (norms,) = ball_norms(layer, head_norms(layer), measure, (Frobenius(0.0),))
    assert float(norms.curvature) == pytest.approx(k**2 + 2 * math.sqrt(2) * k, rel=1e-4)


@pytest.mark.parametrize("case", [case for case in MORE_CASES if case.groups == 1], ids=str)
def test_two_equal_heads_are_twice_one(case):
    """f = 2 f_1, and every way to join heads is exact there: all values double; the curvature up to ties, which only a
    rotation brings: the same worst atom, but other coefficients for the others."""
    one = random_layer(case, generator(0)).head(0)
    fields = {name: getattr(one, name).repeat(2, 1, 1) for name in ("query", "key", "value", "output")}
    biases = {name: getattr(one, name).repeat(2, 1) for name in ("query_bias", "key_bias")}
    two, measure = replace(one, **fields, **biases), random_measure(case, generator(1))
    for radius in (0.0, 0.3):
        (single,) = ball_norms(one, head_norms(one), measure, (Wasserstein(radius),))
        (double,) = ball_norms(two, head_norms(two), measure, (Wasserstein(radius),))
        for name in ("centre", "centre_blocks", "closed_form", "hull_rows"):
            assert torch.allclose(getattr(double, name), 2 * getattr(single, name), rtol=1e-6), name
        assert case.rotary or torch.allclose(double.curvature, 2 * single.curvature, rtol=1e-6)


@pytest.mark.parametrize("case", [case for case in MORE_CASES if case.masses == "uniform"], ids=str)
def test_equal_masses_differ_from_no_masses_by_the_root_of_the_length(case):
    """(1/n sum |d_i|^2)^{1/2} <= eps / sqrt(n) is sum |d_i|^2 <= eps^2: the constants and hulls are the same, and
    |f''| / |d|^2 is sqrt(n) times as large."""
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1))
    root = math.sqrt(measure.length)
    (plain,) = ball_norms(layer, head_norms(layer), measure, (Frobenius(0.3),))
    (averaged,) = ball_norms(layer, head_norms(layer), measure, (Wasserstein(0.3 / root),))
    for name in ("centre", "centre_blocks", "closed_form", "hull_rows"):
        assert torch.allclose(getattr(averaged, name), getattr(plain, name), rtol=1e-6), name
    assert torch.allclose(averaged.curvature, root * plain.curvature, rtol=5e-2)


def test_heads_that_write_to_one_place_by_hand():
    """Keys of size 60 make head 1 read token 1 and head 2 token 2; V_1 = e1 e1^T, V_2 = e1 e2^T. So each of two rows is
    e1 (x_1 e1 + x_2 e2), and the norm is 2: [V_1 V_2] has norm sqrt(2), though V_1 on top of V_2 has norm 1."""
    e = torch.eye(3).double()
    layer = AttentionLayer(
        query=torch.zeros(2, 3, 3).double(),
        query_bias=torch.stack([60 * e[2], -60 * e[2]]),
        key=e.repeat(2, 1, 1),
        key_bias=torch.zeros(2, 3).double(),
        value=torch.stack([e[:1], e[1:2]]),
        output=torch.stack([e[:, :1], e[:, :1]]),
        offset=torch.zeros(3).double(),
        scale=1.0,
    )
    measure = one_sample(TokenMeasure.uniform(torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, -1.0]]).double()))
    norms = head_norms(layer)
    assert norms.beside_value == pytest.approx(math.sqrt(2))
    assert norms.stacked_value == pytest.approx(1.0)
    (found,) = ball_norms(layer, norms, measure, (Frobenius(0.0),))
    assert float(found.centre) == pytest.approx(2.0, rel=1e-3)
    assert float(torch.linalg.matrix_norm(layer.linearize(measure).dense(), 2)) == pytest.approx(2.0)


@pytest.mark.parametrize("copies", [2, 3])
@pytest.mark.parametrize(
    "case", [Case(), Case(mask=Mask.CAUSAL, rotary=True, groups=1), Case(sinks=True, groups=1)], ids=str
)
def test_rows_of_first_copies_stand_for_all(case, copies, monkeypatch):
    """The same numbers as from all atoms one by one: copies differ by their order alone."""
    layer = random_layer(case, generator(0))
    measure = random_measure(case, generator(1), length=3).split(copies)
    budgets, norms = (Wasserstein(0.1), Frobenius(0.2)), head_norms(layer)
    found = ball_norms(layer, norms, measure, budgets), higher_norms(layer, norms, measure, budgets, (3, 5))
    monkeypatch.setattr(TokenMeasure, "merged", lambda self: (self, 1))
    each = ball_norms(layer, norms, measure, budgets), higher_norms(layer, norms, measure, budgets, (3, 5))
    for one, other in zip(found[0], each[0], strict=True):
        for name in ("centre", "centre_blocks", "closed_form", "curvature", "hull_rows"):
            assert torch.allclose(getattr(one, name), getattr(other, name), rtol=1e-7, atol=0)
    for one, other in zip(found[1], each[1], strict=True):
        assert torch.allclose(torch.stack(one), torch.stack(other), rtol=1e-7, atol=0)

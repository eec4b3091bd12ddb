"""Each inequality behind the certificates on a ball, and the whole of them against ascent."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robust_attn.attacks.ascent import ascend
from robust_attn.bounds import ball as module
from robust_attn.bounds import rows
from robust_attn.bounds.ball import ball_norms
from robust_attn.budget import BUDGETS, Frobenius, Wasserstein
from robust_attn.spectral.lipschitz import local_lipschitz
from robust_attn.spectral.norms import covariance_norm_upper, head_norms
from tests.cases import CASES, generator, one_sample, random_layer, random_measure, scalar_layer, scalar_measure

CASE = st.integers(0, len(CASES) - 1)


@given(seed=st.integers(0, 99))
def test_column_norms_bound_products_with_budgets(seed):
    g = generator(seed)
    matrix, a = torch.rand(4, 5, generator=g, dtype=torch.float64), torch.rand(5, generator=g, dtype=torch.float64)
    assert (matrix @ a).norm() <= a.sum() * module._largest_column(matrix) * (1 + 1e-12)


@settings(max_examples=150)
@given(seed=st.integers(0, 10**6), index=CASE, kind=st.sampled_from(sorted(BUDGETS)), log_eps=st.floats(-4, 0.5))
def test_curvature_dominates_second_derivatives_on_the_ball(seed, index, kind, log_eps):
    """|f''[d, d]| by nested forward mode at a random point of the ball, in the weighted norm."""
    case, budget = CASES[index], BUDGETS[kind](10**log_eps)
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


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), index=CASE, kind=st.sampled_from(sorted(BUDGETS)), log_eps=st.floats(-4, 1))
def test_hull_dominates_ascent_row_by_row(seed, index, kind, log_eps):
    case, budget = CASES[index], BUDGETS[kind](10**log_eps)
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


@pytest.mark.parametrize("case", CASES[::4], ids=str)
def test_closed_form_at_the_tokens_dominates_the_exact_constant(case):
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1))
    for kind in BUDGETS.values():
        (norms,) = ball_norms(layer, head_norms(layer), measure, (kind(0.0),))
        exact = local_lipschitz(layer, measure, weights=kind(0.0).weights(measure)).lower
        assert (exact <= norms.centre * (1 + 1e-9)).all()
        assert torch.allclose(norms.centre, norms.closed_form, rtol=1e-9)


@pytest.mark.parametrize("case", CASES[::4], ids=str)
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

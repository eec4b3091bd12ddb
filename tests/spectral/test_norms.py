import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.spectral.norms import covariance_norm_upper, head_norms, norm_upper, product_norm_upper
from tests.cases import CASES, generator, random_layer, random_measure


@given(seed=st.integers(0, 200), rank=st.integers(1, 6), log_scale=st.floats(-80, 80))
def test_gram_iteration_is_an_upper_value_and_nearly_tight(seed, rank, log_scale):
    factor = torch.randn(6, rank, generator=generator(seed), dtype=torch.float64)
    covariance = 10**log_scale * factor @ factor.T
    exact = torch.linalg.eigvalsh(covariance)[-1]
    upper = covariance_norm_upper(covariance)
    assert exact <= upper <= exact * 6 ** (1 / 128) * (1 + 1e-9)


@pytest.mark.parametrize("size", [3, 20])
def test_gram_iteration_of_zero_is_zero(size):
    assert float(covariance_norm_upper(torch.zeros(size, size).double())) == 0.0
    assert float(norm_upper(torch.zeros(size, size).double())) == 0.0


@pytest.mark.parametrize(("rows", "columns"), [(16, 16), (20, 90), (90, 20)])
@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e140])
def test_norms_of_large_matrices_are_those_of_lapack_and_not_below(rows, columns, scale):
    """Also where squares of the entries are no numbers; one that is not finite leaves the others of a batch alone."""
    matrices = scale * torch.randn(3, rows, columns, generator=generator(0), dtype=torch.float64)
    exact = torch.linalg.svdvals(matrices)[..., 0]
    found = norm_upper(matrices)
    assert (found >= exact * (1 + 1e-12)).all()
    assert (found <= exact * (1 + 1e-9)).all()
    if scale == 1.0:
        gram = matrices.mT @ matrices
        assert torch.allclose(covariance_norm_upper(gram), exact**2, rtol=1e-9)
        assert (covariance_norm_upper(gram) >= exact**2).all()
    matrices[1, 0, 0] = torch.nan
    assert torch.isnan(norm_upper(matrices)).tolist() == [False, True, False]


@given(seed=st.integers(0, 50))
def test_product_norm_agrees_with_the_product(seed):
    left, right = (torch.randn(9, 3, generator=generator(seed + i), dtype=torch.float64) for i in (0, 1))
    exact = torch.linalg.matrix_norm(left @ right.T, 2)
    upper = product_norm_upper(left, right.T)
    assert exact <= upper <= exact * (1 + 1e-9)


def test_norm_upper_is_above_a_value_known_exactly():
    """|[[3, 4], [0, 0]]| = 5."""
    upper = float(norm_upper(torch.tensor([[3.0, 4.0], [0.0, 0.0]])))
    assert 5.0 <= upper <= 5.0 * (1 + 1e-10)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_slopes_and_logits_are_bounded_on_the_ball(case):
    """The derivatives of the logits, by autograd, at tokens of norm at most R."""
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1))
    radius = float(measure.radius.max())
    norms = head_norms(layer)
    from robust_attn.attention.jacobian import project

    def logits(points):
        parts = project(layer, measure.with_points(points))
        return layer.scale * parts.q @ parts.k.transpose(-1, -2)

    s = logits(measure.points)[0]
    slope = torch.func.jacrev(lambda p: logits(torch.cat([p[None], measure.points[1:]]))[0])(measure.points[0])
    for i in range(measure.length):
        for j in range(measure.length):
            if i == j or not (measure.present[0, i] and measure.present[0, j]):
                continue
            assert (slope[:, i, j, j].norm(dim=-1) <= norms.key_slope(radius) * (1 + 1e-9)).all()
            relative = slope[:, i, j, i] if layer.rotary is not None else slope[:, i, j, i] - _shared(layer, i)
            assert (relative.norm(dim=-1) <= norms.query_slope(radius) * (1 + 1e-9)).all()
    if layer.rotary is not None:
        present = measure.present[0]
        assert (s[:, present][:, :, present].abs().amax((-1, -2)) <= norms.largest_logit(radius) * (1 + 1e-9)).all()


def _shared(layer, _row):
    """The part of ds_ij/dx_i that is the same for all j: W_Q^T b_K."""
    groups = [layer.group_of(h) for h in range(layer.heads)]
    return layer.scale * (layer.query.transpose(-1, -2) @ layer.key_bias[groups][..., None])[..., 0]


def test_hand_computed_head_norms():
    """A = diag(2, 1), V = diag(3, 1), bias (0, 5): |A| = 2, |V| = 3, |a| = 5; at R = 2 kappa = (4 + 5) 2 = 18."""
    from robust_attn.attention.layer import AttentionLayer

    layer = AttentionLayer.single_head(
        torch.diag(torch.tensor([2.0, 1.0])).double(),
        torch.diag(torch.tensor([3.0, 1.0])).double(),
        torch.tensor([0.0, 5.0]).double(),
    )
    norms = head_norms(layer)
    assert float(norms.interaction) == pytest.approx(2.0)
    assert float(norms.value) == pytest.approx(3.0)
    assert float(norms.largest_logit(2.0)) == pytest.approx(18.0)
    assert norms.has_bias
    assert math.isclose(norms.output, 3.0, rel_tol=1e-9)

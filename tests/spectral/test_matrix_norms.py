import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.spectral import matrix_norms as module
from robust_attn.spectral.matrix_norms import GUESS_SLACK, covariance_norm_upper, norm_upper, product_norm_upper
from tests.cases import generator


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


@pytest.mark.parametrize(("rows", "columns"), [(16, 16), (20, 90), (90, 20), (300, 257)])
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
        assert torch.allclose(covariance_norm_upper(gram), exact**2, rtol=1.01 * GUESS_SLACK)
        assert (covariance_norm_upper(gram) >= exact**2).all()
    matrices[1, 0, 0] = torch.nan
    assert torch.isnan(norm_upper(matrices)).tolist() == [False, True, False]


@given(seed=st.integers(0, 10**6), size=st.integers(16, 40), rank=st.integers(1, 60), log_scale=st.floats(-80, 80))
def test_a_verified_guess_is_an_upper_value_and_nearly_tight(seed, size, rank, log_scale):
    factor = torch.randn(3, size, rank, generator=generator(seed), dtype=torch.float64)
    covariance = 10**log_scale * factor @ factor.mT
    exact = torch.linalg.eigvalsh(covariance)[..., -1]
    found = covariance_norm_upper(covariance)
    assert (found >= exact).all()
    assert (found <= exact * (1 + 1.01 * GUESS_SLACK)).all()
    assert (norm_upper(factor, nearly=True) >= torch.linalg.svdvals(factor)[..., 0]).all()


@pytest.mark.parametrize("part", [0.0, 0.5, 1 - 1e-9])
def test_a_guess_that_is_too_small_is_not_confirmed(monkeypatch, part):
    """Whatever the guess is, what comes out is an upper value; one that is not a number is one for its matrix alone."""
    factor = torch.randn(4, 20, 30, generator=generator(0), dtype=torch.float64)
    exact = torch.linalg.svdvals(factor)[..., 0] ** 2

    def guessed(scaled, _):
        return part * torch.linalg.eigvalsh(scaled)[..., -1] / (1 + GUESS_SLACK)

    monkeypatch.setattr(module, "ritz_value", guessed)
    found = covariance_norm_upper(factor @ factor.mT)
    assert (found >= exact).all()
    assert torch.allclose(found, exact, rtol=1e-9)


def test_where_a_matrix_is_not_finite_its_guess_is_none():
    factor = torch.randn(3, 20, 30, generator=generator(0), dtype=torch.float64)
    covariance = factor @ factor.mT
    covariance[1, 3, 3] = torch.nan
    covariance[2, 0, 1] = torch.inf
    assert torch.isfinite(covariance_norm_upper(covariance)).tolist() == [True, False, False]


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

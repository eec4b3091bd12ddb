import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.spectral.matrix_norms import covariance_norm_upper, norm_upper, product_norm_upper
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

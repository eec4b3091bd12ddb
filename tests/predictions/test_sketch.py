"""Factors against known values and simulated failures; samples against dense matrices."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import special, stats

from robust_attn.predictions.sketch import BasisDraws, GaussianDraws, Sample, _transform, chain_factor, unit_vectors
from tests.cases import generator


def test_one_draw_is_a_chi_square():
    assert chain_factor(256, 1, 1e-12) == pytest.approx(math.sqrt(256 / stats.chi2.ppf(1e-12, 256)))
    assert chain_factor(256, 1, 1e-12) == pytest.approx(1.42, abs=0.005)


@pytest.mark.parametrize(("count", "factor"), [(256, 1.97), (512, 1.60), (1024, 1.39)])
def test_pairs_by_the_closed_form(count, factor):
    """E (1 + 2 t g^2)^{-1/2} = e^z K_0(z) / (4 pi t)^{1/2}, z = 1 / 8 t; the best t over a grid gives these factors."""
    assert chain_factor(count, 2, 1e-12) == pytest.approx(factor, abs=0.01)
    logs, transform = _transform(2)
    for index in range(300, 1200, 100):
        t = math.exp(logs[index])
        closed = math.log(special.k0e(1 / (8 * t))) - 0.5 * math.log(4 * math.pi * t)
        assert transform[index] == pytest.approx(closed, abs=1e-9)


def test_factors_grow_with_the_order_and_fall_with_the_count():
    table = [[chain_factor(count, order, 1e-12) for order in (1, 2, 3, 5, 8)] for count in (128, 256, 512)]
    for row in table:
        assert row == sorted(row)
    for few, more in pairwise(table):
        assert all(a > b for a, b in zip(few, more, strict=True))


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_failures_are_no_more_frequent_than_stated(order):
    """The worst case, a product of independent normal numbers, 20 000 times with a probability of 2 %."""
    g, count, probability = generator(order), 32, 0.02
    values = torch.ones(20_000, count, dtype=torch.float64)
    for _ in range(order):
        values *= torch.randn(20_000, count, generator=g, dtype=torch.float64)
    upper = chain_factor(count, order, probability) ** 2 * values.square().mean(1)
    failures = float((upper < 1).double().mean())
    assert failures <= 1.3 * probability


@pytest.mark.parametrize("seed", range(4))
def test_affine_functions_of_several_draws_fail_less_often_than_products(seed):
    """f = a + <b, g> + <c, h> + g^T M h is affine in g and in h; its mean square is the sum of all squares."""
    g, count, probability = generator(seed), 24, 0.02
    a, b, c = (torch.randn(size, generator=g, dtype=torch.float64) for size in (1, 3, 2))
    m = torch.randn(3, 2, generator=g, dtype=torch.float64)
    one, two = (torch.randn(8000, count, size, generator=g, dtype=torch.float64) for size in (3, 2))
    values = a + one @ b + two @ c + torch.einsum("tki,ij,tkj->tk", one, m, two)
    square = float(sum(part.square().sum() for part in (a, b, c, m)))
    upper = chain_factor(count, 2, probability) ** 2 * values.square().mean(1)
    assert float((upper < square).double().mean()) <= 1.3 * probability


def test_samples_dominate_dense_norms():
    g = generator(3)
    matrix = torch.randn(5, 4, 30, generator=g, dtype=torch.float64)
    draws = GaussianDraws(np.random.default_rng(3), 200, 1e-6)
    sample = Sample(draws.injection(torch.ones(30, dtype=torch.float64)) @ matrix.flatten(0, 1).T, draws.injected(1))
    sample = Sample(sample.tangents.unflatten(1, (5, 4)), sample.factor)
    weights = torch.rand(5, 4, generator=g, dtype=torch.float64)
    assert bool((sample.ranges() >= matrix.norm(dim=-1)).all())
    assert float(sample.norm(weights)) >= float(
        torch.linalg.matrix_norm((weights[..., None] * matrix).flatten(0, 1), 2)
    )
    assert bool((sample.rows(weights) >= torch.linalg.matrix_norm(weights[..., None] * matrix, 2)).all())


def test_a_basis_is_exact():
    g = generator(4)
    matrix, free = torch.randn(6, 5, generator=g, dtype=torch.float64), torch.ones(5, dtype=torch.float64)
    draws = BasisDraws(free, 5)
    both = Sample(draws.tangents(free) @ matrix.T, draws.chain(1, 2))
    whole = Sample(unit_vectors(free) @ matrix.T, 1.0)
    for sample in (both, whole):
        torch.testing.assert_close(sample.ranges(), matrix.norm(dim=1))
        torch.testing.assert_close(sample.norm(torch.ones(6)), torch.linalg.matrix_norm(matrix, 2))
    injected = Sample(draws.injection(torch.ones(5, dtype=torch.float64)) @ matrix.T, draws.injected(1))
    torch.testing.assert_close(injected.norm(torch.ones(6)), torch.linalg.matrix_norm(matrix, 2))
    with pytest.raises(ValueError, match="no affordable basis"):
        draws.chain(3, 1)
    with pytest.raises(ValueError, match="no affordable basis"):
        draws.injected(2)


def test_norms_have_factors_of_their_own():
    draws = GaussianDraws(np.random.default_rng(0), 50, 1e-16, 1e-12)
    sample = draws.sample(torch.randn(50, 6, generator=generator(0), dtype=torch.float64), 3, 1)
    assert sample.factor == pytest.approx(chain_factor(50, 3, 1e-16) ** 2 / 50)
    assert sample.norm_factor == pytest.approx(chain_factor(50, 3, 1e-12) ** 2 / 50)
    one = torch.zeros(6, dtype=torch.float64)
    one[2] = 1
    ratio = float(sample.norm(one) / sample.ranges()[2])
    assert ratio == pytest.approx(chain_factor(50, 3, 1e-12) / chain_factor(50, 3, 1e-16))
    thin = sample.thinned(10)
    assert thin.norm_factor == pytest.approx(5 * sample.norm_factor)
    assert draws.injected_norms(2) < draws.injected(2)
    assert BasisDraws(one, 6).injected_norms(1) == 1.0


def test_the_largest_sample_of_the_fourth_order_is_left_out():
    draws = GaussianDraws(np.random.default_rng(0), 40, 1e-6)
    tangents = torch.randn(40, 90, generator=generator(1), dtype=torch.float64)
    tangents[7] *= 50
    weights = torch.rand(90, generator=generator(2), dtype=torch.float64)
    rest = torch.cat([tangents[:7], tangents[8:]]) * weights
    kappa = chain_factor(39, 4, 1e-6 / 40) / math.sqrt(39)
    found = draws.sample(tangents, 4, 1).norm(weights)
    torch.testing.assert_close(found, kappa * torch.linalg.matrix_norm(rest, ord=2))
    assert float(draws.sample(tangents, 3, 1).norm(weights)) > float(found)
    for entry in (torch.nan, torch.inf):
        tangents[7, 3] = entry
        assert bool(draws.sample(tangents, 4, 1).norm(weights).isnan())


def test_without_the_largest_failures_are_no_more_frequent():
    """Products of four normal numbers, the worst case, 20 000 times with a probability of 2 %."""
    values = torch.randn(4, 20_000, 32, generator=generator(9), dtype=torch.float64).prod(0)
    squares = values.square()
    kept = squares.sum(1) - squares.amax(1)
    upper = chain_factor(31, 4, 0.02 / 32) ** 2 * kept / 31
    assert float((upper < 1).double().mean()) <= 1.3 * 0.02


def test_unit_vectors_of_the_free_rows():
    free = torch.zeros(3, 2, dtype=torch.float64)
    free[1] = 1
    basis = unit_vectors(free)
    assert basis.shape == (2, 3, 2)
    assert bool((basis.sum(0) == free).all())


def test_what_is_not_finite_has_no_norm():
    assert bool(Sample(torch.full((3, 2), torch.nan, dtype=torch.float64), 1.0).norm(torch.ones(2)).isnan())


@pytest.mark.parametrize("shape", [(2, 3000), (2, 3)])
def test_a_norm_is_the_spectral_norm_of_weighted_samples(shape):
    """More columns than are multiplied at once, and fewer than there are samples; weights that are broadcast."""
    g = generator(5)
    tangents = torch.randn(7, *shape, generator=g, dtype=torch.float64)
    weights = torch.rand(2, 1, generator=g, dtype=torch.float64)
    expected = torch.linalg.matrix_norm((tangents * weights).flatten(1), ord=2)
    torch.testing.assert_close(Sample(tangents, 4.0).norm(weights), 2 * expected)
    torch.testing.assert_close(Sample(tangents.float(), 4.0).norm(weights), 2 * expected, rtol=1e-5, atol=0)


def test_the_norm_of_what_is_not_finite_is_not_a_number():
    tangents = torch.ones(2, 1, 3000, dtype=torch.float64)
    tangents[1, 0, 2500] = torch.inf
    assert bool(Sample(tangents, 1.0).norm(torch.ones(1, 1, dtype=torch.float64)).isnan())

"""Steps of docs/proofs/ that no other test attacks by itself."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.spectral.matrix_norms import covariance_norm_upper


@given(seed=st.integers(0, 10**6), classes=st.integers(1, 5), most=st.integers(1, 3), skew=st.floats(0, 6))
def test_hardy_with_several_atoms_at_one_position(seed, classes, most, skew):
    """docs/proofs/global.md#masked-mean-field: means of all that came before, in L2 of the measure, cost 2 at most."""
    g = np.random.default_rng(seed)
    position = np.repeat(np.arange(classes), g.integers(1, most + 1, classes))
    masses = np.exp(skew * g.standard_normal(len(position)))
    b = np.exp(skew * g.standard_normal(len(position)))
    seen = position[None, :] <= position[:, None]
    means = (seen @ (masses * b)) / (seen @ masses)
    assert masses @ means**2 <= 4 * masses @ b**2 * (1 + 1e-12)


def test_the_constant_of_hardy_is_not_too_large():
    """b_j = M_j^{-1/2 + 0.01} nearly attains 2: more than 1.8 at masses that span sixty decades."""
    masses = np.diff(np.exp(np.linspace(-140, 0, 4001)), prepend=0.0)
    total = masses.cumsum()
    b = total ** (-0.49)
    means = (masses * b).cumsum() / total
    assert 1.8 < math.sqrt(masses @ means**2 / (masses @ b**2)) <= 2


@given(seed=st.integers(0, 10**6), k=st.floats(0, 4), n=st.integers(2, 6))
def test_the_pulling_lemma_holds_with_one_half(seed, k, n):
    """docs/proofs/global.md#sharp-mean-field, lemma 2, at corners: K = lo or hi, t = -1 or 1."""
    g = np.random.default_rng(seed)
    mu = g.dirichlet(np.exp(g.uniform(-8, 3, n)))
    K = np.exp(k * g.choice([-1.0, 1.0], n))
    K /= mu @ K
    t = g.choice([-1.0, 1.0], n)
    rho = math.exp(2 * k)
    assert mu @ (K**2 * (t - mu @ (K * t)) ** 2) <= (0.5 + 27 / 64 * (rho + 1 / rho)) * (1 + 1e-12)


@pytest.mark.parametrize("rho", [1.0, 2.0, 30.0, 1e4])
def test_the_extreme_case_of_the_pulling_lemma_is_two_valued(rho):
    """mu(S) = s / beta, K = beta on S and beta / rho elsewhere, beta = rho (1-s) + s: 4 s (1-s) beta^2 / rho."""
    for s in (0.1, 0.25, 0.5):
        beta = rho * (1 - s) + s
        mu, K, t = np.array([s / beta, 1 - s / beta]), np.array([beta, beta / rho]), np.array([1.0, -1.0])
        assert mu @ K == pytest.approx(1)
        assert mu @ (K**2 * (t - mu @ (K * t)) ** 2) == pytest.approx(4 * s * (1 - s) * beta**2 / rho)


@given(seed=st.integers(0, 10**6), steps=st.integers(1, 6), e=st.floats(0.02, 0.9), extreme=st.booleans())
def test_a_start_that_misses_the_largest_value_is_nearly_orthogonal_to_it(seed, steps, e, extreme):
    """docs/proofs/spectral.md#upper-value, the lemma: also where eigenvalues lie at the zeros' worst places."""
    g = np.random.default_rng(seed)
    values = g.uniform(0, 1, 30) ** g.uniform(0.3, 4)
    if extreme:
        values = (1 - e) * np.sin(math.pi * g.integers(0, 2 * steps, 30) / (2 * steps - 1)) ** 2
    values[0] = 1.0
    start = g.standard_normal(30)
    start[0] *= 10 ** g.uniform(-4, 0)
    start /= np.linalg.norm(start)
    if krylov_value(values, start, steps) < 1 - e:
        assert abs(start[0]) < 1 / math.cosh((2 * steps - 1) * math.atanh(math.sqrt(e)))


def krylov_value(values: np.ndarray, start: np.ndarray, steps: int) -> float:
    """The largest Rayleigh quotient of diag(values) over span{b, A b, ..., A^{steps-1} b}."""
    basis = [start]
    for _ in range(steps - 1):
        vector = values * basis[-1]
        for _ in range(2):
            for earlier in basis:
                vector = vector - earlier * (earlier @ vector)
        if np.linalg.norm(vector) < 1e-9:
            break
        basis.append(vector / np.linalg.norm(vector))
    columns = np.array(basis)
    return float(np.linalg.eigvalsh(columns @ (values[:, None] * columns.T))[-1])


@pytest.mark.parametrize("size", [2, 3, 10, 300])
def test_how_often_a_start_is_nearly_orthogonal(size):
    """P(|b_1| < delta) <= sqrt(2 N / pi) delta: 20 000 starts, five standard deviations allowed."""
    starts = np.random.default_rng(0).standard_normal((20_000, size))
    first = np.abs(starts[:, 0]) / np.linalg.norm(starts, axis=1)
    for delta in (0.3 / math.sqrt(size), 0.05 / math.sqrt(size)):
        stated = math.sqrt(2 * size / math.pi) * delta
        assert (first < delta).mean() <= stated + 5 * math.sqrt(stated / 20_000)


@given(seed=st.integers(0, 10**6), size=st.integers(1, 30), log_part=st.floats(-17, -12), above=st.booleans())
def test_where_cholesky_ends_the_matrix_is_nearly_positive(seed, size, log_part, above):
    """docs/proofs/spectral.md#verified-guess: C <= l (1 + 2 u (k + 3)^2) where the factorisation of l I - C ends."""
    g = np.random.default_rng(seed)
    factor = g.standard_normal((size, size)) * g.uniform(0, 1, size) ** 4
    C = factor @ factor.T
    largest = float(np.linalg.eigvalsh(C)[-1])
    guess = largest * (1 + 10**log_part if above else 1 - 10**log_part)
    ended = int(torch.linalg.cholesky_ex(torch.from_numpy(guess * np.eye(size) - C)).info) == 0
    assert not ended or largest * (1 - size * 2.0**-52) <= guess * (1 + 2 * 2.0**-53 * (size + 3) ** 2)


@given(seed=st.integers(0, 10**6), size=st.integers(1, 12), log_eta=st.floats(-12, -3))
def test_gram_iteration_of_a_matrix_that_is_nearly_symmetric(seed, size, log_eta):
    """docs/proofs/spectral.md#gram-iteration: M = C + E, |E| <= eta |C|: not below |C| (1 - 2 eta)."""
    g = np.random.default_rng(seed)
    factor = g.standard_normal((size, size)) * g.uniform(0, 1, size) ** 4
    C, E = factor @ factor.T, g.standard_normal((size, size))
    norm, eta = np.linalg.norm(C, 2), 10**log_eta
    found = float(covariance_norm_upper(torch.from_numpy(C + eta * norm * E / np.linalg.norm(E, 2))))
    assert found >= norm * (1 - 2 * eta)

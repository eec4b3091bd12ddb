"""Upper values of spectral norms against dense ones, where single precision and near-ties do their worst."""

import numpy as np
import pytest
import torch

from robust_attn.predictions import gram
from robust_attn.predictions.gram import FEW, guessed_eigenvalue, squared_norm, upper_eigenvalue, upper_square
from tests.cases import generator


def spectra(count: int, columns: int, seed: int) -> dict[str, torch.Tensor]:
    g = generator(seed)
    noise = torch.randn(count, columns, generator=g, dtype=torch.float64)
    return {
        "noise": noise,
        "one direction": torch.randn(count, 1, generator=g, dtype=torch.float64) + 1e-3 * noise,
        "tiny": 1e-130 * noise,
        "huge": 1e120 * noise,
        "uneven columns": noise * torch.logspace(0, -30, columns, dtype=torch.float64),
        "equal eigenvalues": torch.eye(count, columns, dtype=torch.float64),
    }


@pytest.mark.parametrize("kind", list(spectra(2, 2, 0)))
def test_an_upper_square_is_above_the_norm_by_little(kind):
    flat = spectra(FEW + 20, 1700, 1)[kind]
    scale = torch.rand(1700, generator=generator(2), dtype=torch.float64)
    exact = float(torch.linalg.matrix_norm(flat * scale / flat.abs().max(), ord=2)) * float(flat.abs().max())
    upper = float(upper_square(flat, scale).sqrt())
    assert exact * (1 - 1e-13) <= upper <= 1.01 * exact
    assert float(squared_norm(flat, scale).sqrt()) == upper


def test_a_square_that_is_no_number_any_more_is_not_zero():
    flat = 1e-170 * spectra(FEW + 1, 30, 1)["noise"]
    assert float(upper_square(flat, torch.ones(30, dtype=torch.float64)).sqrt()) >= float(flat.norm())


def test_what_single_precision_can_lose_is_added():
    """Entries of one row that rounding to single precision makes smaller, all of them."""
    row = torch.full((FEW + 1, 4000), 1 + 0.49 * 2.0**-23, dtype=torch.float64)
    row[0] = 1 + 2.0**-22
    exact = float(row.square().sum())
    assert float(upper_square(row, torch.ones(4000, dtype=torch.float64))) >= exact
    single = float(row.float().double().square().sum())
    assert single < exact


@pytest.mark.parametrize("guess", [0.3, 0.9, 0.9999, 1.0, 1.5])
def test_an_eigenvalue_is_proved_whatever_was_guessed(guess, monkeypatch):
    matrix = torch.randn(30, 40, generator=generator(3), dtype=torch.float64)
    product = np.asfortranarray((matrix @ matrix.T).numpy())
    exact = float(np.linalg.eigvalsh(product)[-1])
    monkeypatch.setattr(gram, "guessed_eigenvalue", lambda _: guess * exact)
    assert upper_eigenvalue(product) >= exact


def test_only_the_lower_half_is_read():
    matrix = torch.randn(9, 12, generator=generator(4), dtype=torch.float64)
    product = (matrix @ matrix.T).numpy()
    lower = np.asfortranarray(np.tril(product))
    assert guessed_eigenvalue(lower) == pytest.approx(float(np.linalg.eigvalsh(product)[-1]), rel=1e-9)
    assert upper_eigenvalue(lower) == pytest.approx(float(np.linalg.eigvalsh(product)[-1]), rel=1e-3)


@pytest.mark.parametrize("count", [3, FEW + 1])
@pytest.mark.parametrize("entry", [torch.nan, torch.inf])
def test_what_is_not_finite_has_no_norm(count, entry):
    flat = torch.ones(count, 900, dtype=torch.float64)
    flat[1, 850] = entry
    assert bool(squared_norm(flat, torch.ones(900, dtype=torch.float64)).isnan())


def test_nothing_has_norm_zero():
    for count in (2, FEW + 1):
        assert float(squared_norm(torch.zeros(count, 5, dtype=torch.float64), torch.ones(5, dtype=torch.float64))) == 0


def test_single_precision_gets_a_guess():
    flat = torch.randn(40, 3000, generator=generator(6), dtype=torch.float64)
    scale = torch.rand(3000, generator=generator(7), dtype=torch.float64)
    exact = float(torch.linalg.matrix_norm(flat * scale, ord=2)) ** 2
    assert float(squared_norm(flat.float(), scale.float())) == pytest.approx(exact, rel=5e-3)

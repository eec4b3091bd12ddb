"""Upper values of spectral norms of samples: products in single precision, with everything that rounding can do.

docs/proofs/predictions.md#gram-matrices
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.linalg import blas, eigh_tridiagonal, lapack
from torch import Tensor

COLUMNS = 768
"""How many columns of tangents are weighted and multiplied at once, in single precision; blocks are added in double."""
UNIT = 2.0**-24
"""Half the distance of 1 to the next number in single precision."""
GRAM_ERROR = 1.01 * (COLUMNS + 4) * UNIT
"""|computed - true| <= this times the products of absolute values, entry by entry."""
UNDERFLOW = 2.0**-120
"""More than a product of two numbers up to 1 can lose where single precision has no smaller numbers."""
SMALLEST = 1e-290
"""More than a square loses where double precision has no smaller numbers."""
RESERVES = (5e-4, 4e-3, 2e-2)
"""By how much an upper value is tried above the guess, one after another."""
STEPS = 28
"""Of Lanczos's method."""
FEW = 160
"""Up to so many samples all eigenvalues cost little."""


def squared_norm(flat: Tensor, scale: Tensor) -> Tensor:
    """The squared spectral norm of flat * scale, in float64; not-a-number where an entry is not finite.

    Samples in single precision get a guess. In double precision: the norm, up to rounding in float64, where there are
    few samples, and an upper value that is larger by some 1e-3 where there are many.
    """
    if flat.dtype == torch.float64 and len(flat) > FEW:
        return upper_square(flat, scale)
    weighted = (flat * scale).numpy()
    update = blas.dsyrk if flat.dtype == torch.float64 else blas.ssyrk
    gram = update(1.0, weighted.T, trans=1, lower=1).astype(np.float64)
    if not np.isfinite(gram).all():
        return torch.full((), torch.nan, dtype=torch.float64)
    value = np.linalg.eigvalsh(gram)[-1] if flat.dtype == torch.float64 else guessed_eigenvalue(gram)
    return torch.tensor(max(float(value), 0.0), dtype=torch.float64)


def upper_square(flat: Tensor, scale: Tensor) -> Tensor:
    """An upper value of the squared spectral norm of flat * scale; not-a-number where an entry is not finite."""
    size = float(torch.linalg.vector_norm(flat, torch.inf)) * float(torch.linalg.vector_norm(scale, torch.inf))
    if size == 0:
        return torch.zeros((), dtype=torch.float64)
    gram = _gram(flat, scale / size)
    if not np.isfinite(gram).all():
        return torch.full((), torch.nan, dtype=torch.float64)
    error = GRAM_ERROR / (1 - GRAM_ERROR) * float(np.trace(gram)) + flat.numel() * UNDERFLOW
    return torch.tensor((upper_eigenvalue(gram) + error) * size**2 * (1 + 1e-12) + SMALLEST, dtype=torch.float64)


def _gram(flat: Tensor, scale: Tensor) -> np.ndarray:
    """The lower half of the products of rows of flat * scale, no entry of which is above 1."""
    total = np.zeros((len(flat), len(flat)), order="F")
    for columns, part in zip(flat.split(COLUMNS, 1), scale.split(COLUMNS), strict=True):
        total += blas.ssyrk(1.0, (columns * part).float().numpy().T, trans=1, lower=1)
    return total


def upper_eigenvalue(gram: np.ndarray) -> float:
    """An upper value of the largest eigenvalue, from the lower half of a matrix without negative eigenvalues.

    A value mu is proved by Cholesky's factorisation of mu - G, which ends only where that has no eigenvalue below
    -(rounding); Lanczos guesses it.
    """
    guess, count = guessed_eigenvalue(gram), len(gram)
    for reserve in RESERVES:
        value = guess * (1 + reserve)
        rest = -gram
        rest[np.diag_indices(count)] += value
        _, failed = lapack.dpotrf(rest, lower=1, clean=0, overwrite_a=1)
        if failed == 0:
            return value * (1 + (count + 2) ** 2 * 2.0**-52)
    return float(np.linalg.eigvalsh(gram)[-1]) * (1 + count**2 * 2.0**-52)


def guessed_eigenvalue(gram: np.ndarray) -> float:
    """Most often within 1e-3 of the largest eigenvalue, from below."""
    count = len(gram)
    before, now = np.zeros(count), np.random.default_rng(0).standard_normal(count)
    now /= np.linalg.norm(now)
    diagonal, beside = [], [0.0]
    for _ in range(min(STEPS, count)):
        product = blas.dsymv(1.0, gram, now, lower=1) - beside[-1] * before
        diagonal.append(float(product @ now))
        product -= diagonal[-1] * now
        beside.append(float(np.linalg.norm(product)))
        if beside[-1] <= 1e-9 * diagonal[0]:
            break
        before, now = now, product / beside[-1]
    size = len(diagonal)
    last = (size - 1, size - 1)
    return float(eigh_tridiagonal(diagonal, beside[1:size], eigvals_only=True, select="i", select_range=last)[0])

"""Guaranteed upper values of the norms of matrices: docs/proofs/spectral.md#gram-iteration."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from robust_attn.attention.rounding import UNIT

SVD_MARGIN = 1e-11
"""Relative margin on an SVD in float64: LAPACK's backward error is a small multiple of dimension times 2e-16."""
SQUARINGS = 6
SCALED_EVERY = 3
"""Squarings before a matrix of norm one is scaled again; the last ones end with it. 15^-8 is far from underflow."""
CACHED_ELEMENTS = 2**16
EIGENVALUES_FROM = 16
"""Size from which LAPACK's eigenvalues of a matrix take less time than six squarings, or its singular values."""


def norm_upper(matrix: Float[Tensor, "*batch rows columns"]) -> Float[Tensor, "*batch"]:
    """An upper value of the spectral norm, in float64: from LAPACK's singular values, with their error margin.

    Of large matrices from the eigenvalues of M M^T, which take less time: M M^T errs by as many units of |M|_F^2 as
    inner products have terms. Not a number where the matrix has an entry that is not finite: LAPACK would raise an
    error for the whole batch.
    """
    matrix = matrix.double()
    if min(matrix.shape[-2:]) >= EIGENVALUES_FROM:
        return _root_of_gram(matrix if matrix.shape[-2] <= matrix.shape[-1] else matrix.mT)
    matrix, finite = _finite(matrix)
    norm = torch.linalg.svdvals(matrix)[..., 0] * (1 + SVD_MARGIN)
    return torch.where(finite, norm, torch.nan)


def _root_of_gram(matrix: Float[Tensor, "*batch rows columns"]) -> Float[Tensor, "*batch"]:
    """|M M^T|^{1/2} of wide matrices, scaled by their largest entry so that no square vanishes."""
    top = matrix.abs().amax((-2, -1))
    scaled = matrix / torch.where(top > 0, top, torch.ones_like(top))[..., None, None]
    error = UNIT * (matrix.shape[-1] + 2) * torch.linalg.vector_norm(scaled, dim=(-2, -1)) ** 2
    return (_largest_eigenvalue(scaled @ scaled.mT) + error).sqrt() * (1 + SVD_MARGIN) * top


def product_norm_upper(
    left: Float[Tensor, "*batch a k"], right: Float[Tensor, "*batch k b"], *, unit: float = UNIT
) -> Float[Tensor, "*batch"]:
    """An upper value of |left right| for thin factors: both are reduced by QR to k x k first.

    What the factors have in size and the product has not is lost to rounding: `product_error` is added.
    """
    left_factor = torch.linalg.qr(left.double(), mode="r").R
    right_factor = torch.linalg.qr(right.double().transpose(-1, -2), mode="r").R
    found = norm_upper(left_factor @ right_factor.transpose(-1, -2))
    return found + product_error(left, right, unit=unit)


def product_error(
    left: Float[Tensor, "*batch a k"], right: Float[Tensor, "*batch k b"], *, unit: float = UNIT
) -> Float[Tensor, "*batch"]:
    """How far rounding may take left right from the exact product, as a matrix, with or without QR of the factors.

    k units times the Frobenius norms for the product, and (a + b) k for the two factorisations.
    """
    rows, inner = left.shape[-2:]
    count = (rows + right.shape[-1] + 2) * inner + 20
    return unit * count * left.double().norm(dim=(-2, -1)) * right.double().norm(dim=(-2, -1))


def covariance_norm_upper(covariance: Float[Tensor, "*batch k k"]) -> Float[Tensor, "*batch"]:
    """An upper value of the norm of positive semidefinite matrices, symmetric up to rounding.

    Of large ones by LAPACK's eigenvalues, with their error margin; of small ones, of which there are many, by Gram
    iteration.
    """
    return _largest_eigenvalue(covariance) if covariance.shape[-1] >= EIGENVALUES_FROM else _gram_iteration(covariance)


def _largest_eigenvalue(covariance: Float[Tensor, "*batch k k"]) -> Float[Tensor, "*batch"]:
    """Not a number where the matrix has an entry that is not finite."""
    covariance, finite = _finite(covariance.double())
    values = torch.linalg.eigvalsh(covariance)
    largest = torch.maximum(values[..., -1], -values[..., 0]) * (1 + SVD_MARGIN)
    return torch.where(finite, largest, torch.nan)


def _finite(matrix: Float[Tensor, "*batch rows columns"]) -> tuple[Tensor, Bool[Tensor, "*batch"]]:
    """The matrices with zeros in place of those that have an entry that is not finite, and which have none.

    A sum of entries is finite only if all of them are, so mostly nothing is copied.
    """
    finite = torch.isfinite(matrix.sum((-2, -1)))
    if bool(finite.all()):
        return matrix, finite
    finite = torch.isfinite(matrix).flatten(-2).all(-1)
    return torch.where(finite[..., None, None], matrix, 0.0), finite


def _gram_iteration(covariance: Float[Tensor, "*batch k k"]) -> Float[Tensor, "*batch"]:
    """|C| <= |C^(2^s)|_F^(2^-s): sound at every step because the Frobenius norm dominates.

    The excess is at most k^(2^-(s+1)), 2 % for k = 15. Scaling every SCALED_EVERY squarings keeps powers in range.
    Some at a time, so that they stay in the processor's cache.
    """
    some = (
        covariance.double()
        .reshape(-1, *covariance.shape[-2:])
        .split(max(1, CACHED_ELEMENTS // covariance.shape[-1] ** 2))
    )
    return torch.cat([_squared(each) for each in some]).reshape(covariance.shape[:-2])


def _squared(covariance: Float[Tensor, "some k k"]) -> Float[Tensor, "some"]:
    power = covariance
    log_norm = torch.zeros(power.shape[:-2], dtype=torch.float64, device=power.device)
    for step in range(SQUARINGS + 1):
        if step % SCALED_EVERY == 0:
            size = power.flatten(-2).norm(dim=-1)
            safe = torch.where(size > 0, size, torch.ones_like(size))
            log_norm = log_norm + safe.log() / 2**step
            power = power / safe[..., None, None]
        if step < SQUARINGS:
            power = power @ power
    zero = covariance.flatten(-2).abs().amax(-1) == 0
    return torch.where(zero, torch.zeros_like(log_norm), log_norm.exp() * (1 + SVD_MARGIN))

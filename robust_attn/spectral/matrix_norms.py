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
GUESS_STEPS, GUESS_SLACK = 12, 2.0**-12
"""Steps of Lanczos after which its value, with the slack, is mostly an upper one of a matrix of some dozen rows."""
LARGE, LARGE_STEPS, LARGE_SLACK = 256, 80, 1e-10
"""The same of single matrices with so many rows or more, whose eigenvalues take far longer than a guess."""
GUESSED_ELEMENTS = 2**18


def norm_upper(matrix: Float[Tensor, "*batch rows columns"], *, nearly: bool = False) -> Float[Tensor, "*batch"]:
    """An upper value of the spectral norm, in float64: from LAPACK's singular values, with their error margin.

    Of large matrices from the eigenvalues of M M^T, which take less time: M M^T errs by as many units of |M|_F^2 as
    inner products have terms. With `nearly` it may be GUESS_SLACK more, in less time. Not a number where the matrix has
    an entry that is not finite: LAPACK would raise an error for the whole batch.
    """
    matrix = matrix.double()
    if min(matrix.shape[-2:]) >= EIGENVALUES_FROM:
        return _root_of_gram(matrix if matrix.shape[-2] <= matrix.shape[-1] else matrix.mT, nearly=nearly)
    matrix, finite = _finite(matrix)
    norm = torch.linalg.svdvals(matrix)[..., 0] * (1 + SVD_MARGIN)
    return torch.where(finite, norm, torch.nan)


def _root_of_gram(matrix: Float[Tensor, "*batch rows columns"], *, nearly: bool) -> Float[Tensor, "*batch"]:
    """|M M^T|^{1/2} of wide matrices, scaled by their largest entry so that no square vanishes."""
    top = matrix.abs().amax((-2, -1))
    scaled = matrix / torch.where(top > 0, top, torch.ones_like(top))[..., None, None]
    error = UNIT * (matrix.shape[-1] + 2) * torch.linalg.vector_norm(scaled, dim=(-2, -1)) ** 2
    gram = scaled @ scaled.mT
    if nearly:
        largest = _verified(gram, GUESS_STEPS, GUESS_SLACK)
    else:
        largest = _verified(gram, LARGE_STEPS, LARGE_SLACK) if gram.shape[-1] >= LARGE else _largest_eigenvalue(gram)
    return (largest + error).sqrt() * (1 + SVD_MARGIN) * top


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

    Of large ones a guess that is verified, GUESS_SLACK above the norm; of small ones, of which there are many, by Gram
    iteration.
    """
    if covariance.shape[-1] < EIGENVALUES_FROM:
        return _gram_iteration(covariance)
    return _verified(covariance.double(), GUESS_STEPS, GUESS_SLACK)


def _verified(covariance: Float[Tensor, "*batch k k"], steps: int, slack: float) -> Float[Tensor, "*batch"]:
    """Upper values of the norms of positive semidefinite matrices: a guess where Cholesky's factorisation confirms it,
    LAPACK's eigenvalue where it does not. Some at a time, so that they stay in the processor's cache.

    docs/proofs/spectral.md#verified-guess
    """
    some = covariance.reshape(-1, *covariance.shape[-2:]).split(max(1, GUESSED_ELEMENTS // covariance.shape[-1] ** 2))
    return torch.cat([_guess_or_eigenvalue(each, steps, slack) for each in some]).reshape(covariance.shape[:-2])


def _guess_or_eigenvalue(covariance: Float[Tensor, "some k k"], steps: int, slack: float) -> Float[Tensor, "some"]:
    size = covariance.shape[-1]
    trace = covariance.diagonal(dim1=-2, dim2=-1).sum(-1)
    scaled = covariance / trace[:, None, None]
    guess = ritz_value(scaled, steps) * (1 + slack)
    rest = -scaled
    rest.diagonal(dim1=-2, dim2=-1).add_(guess[:, None])
    factor, failed = torch.linalg.cholesky_ex(rest)
    confirmed = (failed == 0) & torch.isfinite(factor.sum((-2, -1))) & torch.isfinite(trace)
    found = guess * (1 + 2 * UNIT * (size + 3) * (size + 3)) * (1 + SVD_MARGIN) * trace
    if not bool(confirmed.all()):
        found[~confirmed] = _largest_eigenvalue(covariance[~confirmed])
    return found


def ritz_value(symmetric: Float[Tensor, "some k k"], steps: int) -> Float[Tensor, "some"]:
    """The largest value of Lanczos's tridiagonal matrix from a fixed start: near the largest eigenvalue, a guess."""
    size, count = symmetric.shape[-1], min(steps, symmetric.shape[-1])
    start = torch.randn(size, generator=torch.Generator().manual_seed(size), dtype=torch.float64)
    vector = (start / start.norm()).to(symmetric.device).expand(len(symmetric), 1, size)
    before, off = torch.zeros_like(vector), torch.zeros_like(vector[..., :1])
    diagonal, beside = [], []
    for _ in range(count):
        image = vector @ symmetric
        along = (image * vector).sum(-1, keepdim=True)
        image = image - along * vector - off * before
        off = torch.linalg.vector_norm(image, dim=-1, keepdim=True)
        before, vector = vector, image / torch.where(off > 0, off, 1.0)
        diagonal.append(along[:, 0, 0])
        beside.append(off[:, 0, 0])
    pair = torch.stack(beside[:-1], dim=-1) if count > 1 else symmetric.new_zeros(len(symmetric), 0)
    matrix = torch.diag_embed(torch.stack(diagonal, dim=-1)) + torch.diag_embed(pair, offset=-1)
    matrix, finite = _finite(matrix)
    return torch.where(finite, torch.linalg.eigvalsh(matrix)[..., -1], torch.nan)


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

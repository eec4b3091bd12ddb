"""The largest singular values of a map with both singular vectors, under the names of `scipy.sparse.linalg.svds`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse.linalg import LinearOperator
from torch import Tensor

from robust_attn.attention.operator import Jacobian
from robust_attn.attention.places import standard_normal
from robust_attn.spectral.lanczos import Bidiagonal, bidiagonalize, finite_svd


@dataclass(frozen=True, eq=False)
class SingularTriplets:
    """u diag(s) vt, the largest first; fields are flattened, so a row of `vt` is a tangent of shape (n, d) as a vector.

    `residuals` are |J^T u - s v| / s_1: each `s` lies within that of some singular value. They are **lower** values:
    the i-th is at most the i-th singular value. `converged` says whether every residual is within the tolerance asked.
    """

    u: Float[Tensor, "*batch codomain k"]
    s: Float[Tensor, "*batch k"]
    vt: Float[Tensor, "*batch k domain"]
    residuals: Float[Tensor, "*batch k"]
    steps: int
    converged: bool


def svds(
    operator: Jacobian, k: int = 1, *, generator: torch.Generator, steps: int = 128, tolerance: float = 1e-6
) -> SingularTriplets:
    """The k largest singular triplets of every sample, by at most `steps` Golub-Kahan steps from a random start.

    It ends at the first checkpoint where all k residuals of all samples are at most `tolerance`. Where `steps` reaches
    the dimension the matrix itself is decomposed. A value that is repeated exactly is found a second time only once the
    first Krylov space is exhausted, as with every Lanczos method that starts from one vector.
    """
    domain, codomain = operator.domain[-2:].numel(), operator.codomain[-2:].numel()
    if not 1 <= k <= min(domain, codomain, steps):
        raise ValueError(f"k must be from 1 to min(domain {domain}, codomain {codomain}, steps {steps}), got {k}")
    if steps >= domain:
        return _decomposed(operator, k)
    start = standard_normal(operator.domain, generator, torch.empty(0, dtype=operator.dtype, device=operator.device))

    def settled(partial: Bidiagonal) -> bool:
        return partial.alphas.shape[-1] >= k and bool((partial.residuals(k) <= tolerance).all())

    pair = bidiagonalize(operator, start, steps, settled)
    left, values, right = finite_svd(pair.matrix())
    return SingularTriplets(
        u=pair.left.transpose(-1, -2) @ left[..., :k],
        s=values[..., :k],
        vt=right[..., :k, :] @ pair.right,
        residuals=pair.residuals(k),
        steps=pair.alphas.shape[-1],
        converged=settled(pair),
    )


def _decomposed(operator: Jacobian, k: int) -> SingularTriplets:
    left, values, right = finite_svd(operator.dense().detach())
    return SingularTriplets(
        u=left[..., :k],
        s=values[..., :k],
        vt=right[..., :k, :],
        residuals=torch.zeros_like(values[..., :k]),
        steps=operator.domain[-2:].numel(),
        converged=True,
    )


def as_linear_operator(jacobian: Jacobian) -> LinearOperator:
    """The map of one sample as a SciPy operator on flattened fields: `svds`, `aslinearoperator`, `lsqr`... take it."""
    if jacobian.domain[:-2].numel() != 1:
        raise ValueError(
            f"a SciPy operator is one matrix: expected one sample, got a batch {tuple(jacobian.domain[:-2])}"
        )

    def apply(vector: np.ndarray, shape: torch.Size, forward: bool) -> np.ndarray:
        field = torch.as_tensor(np.ascontiguousarray(vector), dtype=jacobian.dtype).reshape(shape).to(jacobian.device)
        moved = jacobian.jvp(field) if forward else jacobian.vjp(field)
        return moved.detach().reshape(-1).cpu().numpy()

    return LinearOperator(
        shape=(jacobian.codomain.numel(), jacobian.domain.numel()),
        matvec=lambda vector: apply(vector, jacobian.domain, True),
        rmatvec=lambda vector: apply(vector, jacobian.codomain, False),
        dtype=torch.empty(0, dtype=jacobian.dtype).numpy().dtype,
    )

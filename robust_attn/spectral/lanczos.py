"""Golub-Kahan-Lanczos with full reorthogonalisation, and what it proves about the largest singular value.

The largest singular value of the bidiagonal matrix is a **lower** value. From a start that is uniform on the sphere it
also gives an **upper** value that fails with a stated probability (Kuczynski, Wozniakowski 1992): after k steps on an
operator of dimension N, P(xi < (1 - e) lambda_1) <= 1.648 sqrt(N) exp(-sqrt(e) (2k - 1)) for lambda_1 = sigma_1^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.operator import Jacobian

KW_CONSTANT = 1.648
BREAKDOWN = 1e-13
SECOND_PASS = 0.5
ROUNDING_MARGIN = 1e-10
"""Relative margin on upper values for rounding in the recurrence, which full reorthogonalisation keeps near 1e-14."""


@dataclass(frozen=True, eq=False)
class Bidiagonal:
    """J V = U B and J^T U = V B^T + residual, B upper bidiagonal: diagonal `alphas`, superdiagonal `betas`."""

    right: Float[Tensor, "*batch steps domain"]
    left: Float[Tensor, "*batch steps codomain"]
    alphas: Float[Tensor, "*batch steps"]
    betas: Float[Tensor, "*batch steps"]

    def matrix(self) -> Float[Tensor, "*batch steps steps"]:
        """B itself."""
        return torch.diag_embed(self.alphas) + torch.diag_embed(self.betas[..., :-1], offset=1)


@dataclass(frozen=True, eq=False)
class LipschitzEstimate:
    """What is known about the largest singular value of a map, one entry per sample.

    `lower` is attained up to rounding by `direction`. `upper` is not exceeded except with probability
    `failure_probability` over the random start (zero where the value came from a full decomposition).
    """

    lower: Float[Tensor, "*batch"]
    upper: Float[Tensor, "*batch"]
    failure_probability: float
    steps: int
    residual: Float[Tensor, "*batch"]
    direction: Float[Tensor, "*batch n d"]

    @property
    def converged(self) -> bool:
        """Whether every singular pair has a relative residual below 1e-6."""
        return bool((self.residual <= 1e-6).all())


def bidiagonalize(operator: Jacobian, start: Float[Tensor, "*batch n d"], steps: int) -> Bidiagonal:
    """`steps` Golub-Kahan steps from `start`; a sample whose Krylov space is exhausted continues with zeros."""
    batch = operator.domain[:-2]
    right = torch.zeros(*batch, steps, operator.domain[-2:].numel(), dtype=operator.dtype)
    left = torch.zeros(*batch, steps, operator.codomain[-2:].numel(), dtype=operator.dtype)
    alphas = torch.zeros(*batch, steps, dtype=operator.dtype)
    betas = torch.zeros(*batch, steps, dtype=operator.dtype)
    scale = torch.zeros(batch, dtype=operator.dtype)
    v, _ = _normalized(start.flatten(-2), scale)
    u, beta = torch.zeros_like(left[..., 0, :]), torch.zeros_like(scale)
    for step in range(steps):
        right[..., step, :] = v
        image = operator.jvp(v.reshape(operator.domain)).flatten(-2) - beta[..., None] * u
        u, alphas[..., step] = _normalized(_orthogonal(image, left[..., :step, :]), scale)
        left[..., step, :] = u
        scale = torch.maximum(scale, alphas[..., step])
        back = operator.vjp(u.reshape(operator.codomain)).flatten(-2) - alphas[..., step, None] * v
        v, beta = _normalized(_orthogonal(back, right[..., : step + 1, :]), scale)
        betas[..., step] = beta
    return Bidiagonal(right, left, alphas, betas)


def upper_factor(dimension: int, steps: int, failure_probability: float) -> float:
    """The factor by which sqrt(xi) is multiplied to be an upper value; infinity when `steps` are too few to say."""
    root = math.log(KW_CONSTANT * math.sqrt(dimension) / failure_probability) / (2 * steps - 1)
    return math.inf if root >= 1 else 1 / math.sqrt(1 - root * root)


def largest_singular_value(
    operator: Jacobian, *, generator: torch.Generator, steps: int = 64, failure_probability: float = 1e-9
) -> LipschitzEstimate:
    """Lower and upper values of the largest singular value, and its right singular vector, for every sample.

    The stated probability covers all samples of the batch together. Where `steps` reaches the dimension the Krylov
    space is the whole space and the value is exact up to rounding.
    """
    n, d = operator.domain[-2:]
    samples = max(1, math.prod(operator.domain[:-2]))
    steps = min(steps, n * d)
    start = torch.randn(operator.domain, generator=generator, dtype=operator.dtype)
    pair = bidiagonalize(operator, start, steps)
    left, values, right = torch.linalg.svd(pair.matrix())
    lower = values[..., 0]
    residual = (pair.betas[..., -1] * left[..., -1, 0]).abs() / lower.clamp_min(torch.finfo(lower.dtype).tiny)
    factor = 1.0 if steps == n * d else upper_factor(n * d, steps, failure_probability / samples)
    direction = (right[..., :1, :] @ pair.right).reshape(operator.domain)
    margin = (1 + ROUNDING_MARGIN) if operator.dtype == torch.float64 else 1 + 1e-3
    return LipschitzEstimate(
        lower=lower,
        upper=lower * factor * margin,
        failure_probability=0.0 if steps == n * d else failure_probability,
        steps=steps,
        residual=residual,
        direction=direction,
    )


def _orthogonal(vector: Float[Tensor, "*batch size"], basis: Float[Tensor, "*batch steps size"]) -> Tensor:
    """`vector` minus its components along the basis, and once more where the first pass took away half of it.

    (Daniel, Gragg, Kaufman, Stewart 1976.) Sample by sample, because a batched product of tall matrices with one column is several times slower on a CPU.
    """
    if basis.shape[-2] == 0:
        return vector
    cleaned = []
    for column, rows in zip(vector.reshape(-1, vector.shape[-1]), basis.reshape(-1, *basis.shape[-2:]), strict=True):
        once = column - rows.T.mv(rows.mv(column))
        again = bool(once.norm() < SECOND_PASS * column.norm())
        cleaned.append(once - rows.T.mv(rows.mv(once)) if again else once)
    return torch.stack(cleaned).reshape(vector.shape)


def _normalized(vector: Float[Tensor, "*batch size"], scale: Float[Tensor, "*batch"]) -> tuple[Tensor, Tensor]:
    """The unit vector and the norm; both zero where the norm is rounding noise relative to `scale`."""
    size = vector.norm(dim=-1)
    size = torch.where(size > BREAKDOWN * scale, size, torch.zeros_like(size))
    safe = torch.where(size > 0, size, torch.ones_like(size))[..., None]
    return torch.where(size[..., None] > 0, vector / safe, torch.zeros_like(vector)), size

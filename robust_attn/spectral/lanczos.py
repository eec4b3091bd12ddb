"""Golub-Kahan-Lanczos, reorthogonalised, and what it proves about the largest singular value: docs/proofs/spectral.md.

The largest singular value of the bidiagonal matrix is a **lower** value. From a start that is uniform on the sphere it
also gives an **upper** value that fails with a stated probability (Kuczynski, Wozniakowski 1992): after k steps on an
operator of dimension N, P(xi < (1 - e) lambda_1) <= 1.648 sqrt(N) exp(-sqrt(e) (2k - 1)) for lambda_1 = sigma_1^2.

**What the probability is over.** The draw of the start, for a map that was fixed before it. Whoever knows the start can
choose a map whose first direction is orthogonal to it: so a start comes from fresh entropy unless a seed is given, a
seed has 63 bits (a published one, or one of few, could be avoided), and a result carries the seed that was drawn.

What the run has seen of the spectrum gives a far smaller one (`run_upper.py`).

**Stopping early.** Runs that stop soon are just those that may have missed sigma_1. But both upper values fail in one
and the same event, whatever the k: that the start is nearly orthogonal to the singular vector. So they hold at all
steps at once, hence at the one where the run stopped, however it was chosen. A union covers the samples of a batch.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from robust_attn.attention.operator import Jacobian
from robust_attn.attention.places import standard_normal
from robust_attn.spectral.run_upper import run_excludes, run_upper, smallest_start
from robust_attn.types import as_html

KW_CONSTANT = 1.648
BREAKDOWN_ULPS = 500
"""A norm below this many units of rounding, relative to the largest value so far, is noise: the space is exhausted."""
CHECK_EVERY = 2
CONVERGED = 1e-6
CLOSE = 0.01
"""A run may end where every upper value exceeds the lower one by no more than this part, or than all its steps would
have promised whatever they had seen."""
SECOND_PASS = 0.5
ROUNDING_MARGIN = 1e-10
"""Relative margin on upper values for rounding in the recurrence, which full reorthogonalisation keeps near 1e-14."""
ROUNDING_MARGIN_SINGLE = 1e-3
SEED_BITS = 63
Draws = torch.Generator | np.random.Generator


def fresh_seed() -> int:
    """A seed that nobody knew before: from the operating system's entropy."""
    return secrets.randbits(SEED_BITS)


def start_generator(seed: int) -> np.random.Generator:
    """Where starts are drawn from: it takes in every bit of the seed, as torch's generator on a CPU does not."""
    return np.random.default_rng(seed)


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

    def residuals(self, k: int = 1) -> Float[Tensor, "*batch k"]:
        """|J^T u - s v| / s_1 of the k largest approximate triplets (J v = s u holds by construction)."""
        left, values, _ = finite_svd(self.matrix())
        return self._residuals(left, values)[..., :k]

    def error(self) -> Float[Tensor, "*batch"]:
        """Relative error of the largest value: its residual r, or r^2 / (2 gap) where the next value stands apart.

        (Temple's inequality for the symmetric form of J, as PROPACK refines its bounds.) An estimate: the gap is that
        to the next value *found*, less its residual; a value that the start has missed is not seen.
        """
        left, values, _ = finite_svd(self.matrix())
        relative = values / values[..., :1].clamp_min(torch.finfo(values.dtype).tiny)
        residuals = self._residuals(left, values)
        first = residuals[..., 0]
        if values.shape[-1] < 2:
            return first
        gap = 1 - relative[..., 1] - residuals[..., 1]
        refined = first**2 / (2 * torch.where(gap > 0, gap, torch.ones_like(gap)))
        return torch.where(gap > 0, torch.minimum(first, refined), first)

    def runs(self, lower: Float[Tensor, "*batch"]) -> list[tuple[list[float], list[float], float]]:
        """Alphas, betas and largest value of every sample, in order."""
        steps = self.alphas.shape[-1]
        alphas, betas = (field.reshape(-1, steps).tolist() for field in (self.alphas, self.betas))
        return list(zip(alphas, betas, lower.reshape(-1).tolist(), strict=True))

    def shown(
        self, upper: Float[Tensor, "*batch"], lower: Float[Tensor, "*batch"], smallest: float
    ) -> Bool[Tensor, "*batch"]:
        """Whether the run shows that the largest value is below `upper`; never in single precision."""
        runs = zip(self.runs(lower), upper.reshape(-1).tolist(), strict=True)
        found = [upper.dtype == torch.float64 and run_excludes(*run, value, smallest) for run, value in runs]
        return torch.tensor(found, device=upper.device).reshape(upper.shape)

    def _residuals(self, left: Tensor, values: Tensor) -> Float[Tensor, "*batch steps"]:
        largest = values[..., :1].clamp_min(torch.finfo(values.dtype).tiny)
        return (self.betas[..., -1:] * left[..., -1, :]).abs() / largest


@dataclass(frozen=True, eq=False)
class LipschitzEstimate:
    """What is known about the largest singular value of a map, one entry per sample.

    `lower` is attained up to rounding by `direction`. `upper` is not exceeded except with probability
    `failure_probability` over the random start (zero where the value came from a full decomposition). `residual` is
    that of the pair, and `error` the relative error of `lower` that it leaves, as far as the iteration can see
    (`Bidiagonal.error`). `seed` is the one the start was drawn with, where it was drawn with one, and `rounding` what
    both sides allow for beyond the margin of the iteration, where the map itself is not known exactly.
    """

    lower: Float[Tensor, "*batch"]
    upper: Float[Tensor, "*batch"]
    failure_probability: float
    steps: int
    residual: Float[Tensor, "*batch"]
    error: Float[Tensor, "*batch"]
    direction: Float[Tensor, "*batch n d"]
    seed: int | None = None
    rounding: Float[Tensor, "*batch"] | None = None

    @property
    def converged(self) -> bool:
        """Whether every value has settled to a relative error of 1e-6."""
        return bool((self.error <= CONVERGED).all())

    def __repr__(self) -> str:
        return f"LipschitzEstimate(lower={_told(self.lower)}, upper={_told(self.upper)}, {self.steps} steps)"

    def _repr_html_(self) -> str:
        facts = {"at least": _told(self.lower), "at most": _told(self.upper)}
        return as_html("Lipschitz constant", facts | {"wrong with probability at most": self.failure_probability})


def _told(values: Float[Tensor, "*batch"]) -> str:
    return ", ".join(f"{value:.6g}" for value in values.flatten().tolist())


def checkpoints(steps: int) -> tuple[int, ...]:
    """The steps at which a run of at most `steps` is asked whether it may stop."""
    return (*range(CHECK_EVERY, steps, CHECK_EVERY), steps)


def bidiagonalize(
    operator: Jacobian,
    start: Float[Tensor, "*batch n d"],
    steps: int,
    stop: Callable[[Bidiagonal], bool] | None = None,
) -> Bidiagonal:
    """At most `steps` Golub-Kahan steps from `start`; `stop` is asked at the checkpoints.

    Where a sample's Krylov space is exhausted the run goes on from a fresh direction orthogonal to all before, with a
    zero in the bidiagonal matrix. The searched space only grows by this, and repeated singular values are found.
    """
    batch, asked = operator.domain[:-2], set(checkpoints(steps)) if stop is not None else set()
    # Not zeroed: memory is touched only by the steps really done.
    right = start.new_empty(*batch, steps, operator.domain[-2:].numel())
    left = start.new_empty(*batch, steps, operator.codomain[-2:].numel())
    alphas, betas = start.new_zeros(*batch, steps), start.new_zeros(*batch, steps)
    scale = start.new_zeros(batch)
    v, _ = _next(start.flatten(-2), right[..., :0, :], scale)
    u, beta = torch.zeros_like(left[..., 0, :]), torch.zeros_like(scale)
    for step in range(steps):
        right[..., step, :] = v
        image = operator.jvp(v.reshape(operator.domain)).detach().flatten(-2) - beta[..., None] * u
        u, alphas[..., step] = _next(image, left[..., :step, :], scale)
        left[..., step, :] = u
        scale = torch.maximum(scale, alphas[..., step])
        back = operator.vjp(u.reshape(operator.codomain)).detach().flatten(-2) - alphas[..., step, None] * v
        v, beta = _next(back, right[..., : step + 1, :], scale)
        betas[..., step] = beta
        scale = torch.maximum(scale, beta)
        if stop is not None and step + 1 in asked and step + 1 < steps:
            done = step + 1
            partial = Bidiagonal(right[..., :done, :], left[..., :done, :], alphas[..., :done], betas[..., :done])
            if stop(partial):
                return partial
    return Bidiagonal(right, left, alphas, betas)


def upper_factor(dimension: int, steps: int, failure_probability: float) -> float:
    """The factor by which sqrt(xi) is multiplied to be an upper value; infinity when `steps` are too few to say."""
    root = max(0.0, math.log(KW_CONSTANT * math.sqrt(dimension) / failure_probability)) / (2 * steps - 1)
    return math.inf if root >= 1 else 1 / math.sqrt(1 - root * root)


def largest_singular_value(
    operator: Jacobian,
    *,
    generator: Draws,
    steps: int = 64,
    failure_probability: float = 1e-9,
    tolerance: float | None = None,
    below: Float[Tensor, "*batch"] | None = None,
) -> LipschitzEstimate:
    """Lower and upper values of the largest singular value, and its right singular vector, for every sample.

    The stated probability covers all samples of the batch together; for a certificate the start must be drawn after the
    map was fixed, from entropy that nobody knew (`start_generator(fresh_seed())`). The run ends at the first checkpoint
    where every sample has converged and its upper value is close to the lower one (CLOSE), or with a `tolerance` where
    its relative `error` is at most that; or where its upper value is known to be at most its `below`. The upper value
    is always that of the steps done: looking on the way takes nothing (see the top of this module).
    Where `steps` reaches the dimension the matrix itself is decomposed, and nothing is left to chance.
    """
    if steps >= operator.domain[-2:].numel():
        return _decomposed(operator)
    chance = failure_probability / max(1, math.prod(operator.domain[:-2]))
    size = operator.domain[-2:].numel()
    part = min(CLOSE, upper_factor(size, steps, chance) - 1)

    def enough(partial: Bidiagonal) -> bool:
        lower, error = finite_svd(partial.matrix())[1][..., 0], partial.error()
        if tolerance is None:
            done = (error <= CONVERGED) & partial.shown((1 + part) * lower, lower, smallest_start(size, chance))
        else:
            done = error <= tolerance
        if below is not None and not bool(done.all()):
            done = done | partial.shown(below / (1 + ROUNDING_MARGIN), lower, smallest_start(size, chance))
        return bool(done.all())

    pair = bidiagonalize(operator, _normal(operator, generator), steps, enough)
    _, values, right = finite_svd(pair.matrix())
    return LipschitzEstimate(
        lower=values[..., 0],
        upper=_upper(pair, values[..., 0], size, chance),
        failure_probability=failure_probability,
        steps=pair.alphas.shape[-1],
        residual=pair.residuals()[..., 0],
        error=pair.error(),
        direction=(right[..., :1, :] @ pair.right).reshape(operator.domain),
    )


def _upper(
    pair: Bidiagonal, lower: Float[Tensor, "*batch"], dimension: int, failure_probability: float
) -> Float[Tensor, "*batch"]:
    """The smaller of what the number of steps promises and what the run has seen; of single precision only the first.

    Rounding there takes away more of a start than the probability leaves.
    """
    promised = _raised(lower, upper_factor(dimension, pair.alphas.shape[-1], failure_probability))
    if lower.dtype != torch.float64:
        return promised
    smallest = smallest_start(dimension, failure_probability)
    seen = [run_upper(*run, smallest) for run in pair.runs(lower)]
    shown = torch.tensor(seen, dtype=lower.dtype, device=lower.device).reshape(lower.shape)
    return torch.minimum(promised, _raised(shown, 1.0))


def _normal(operator: Jacobian, generator: Draws) -> Float[Tensor, "*batch n d"]:
    """A start that is uniform in direction."""
    if isinstance(generator, torch.Generator):
        drawn = torch.randn(operator.domain, generator=generator, dtype=operator.dtype)
    else:
        drawn = torch.from_numpy(generator.standard_normal(tuple(operator.domain)))
    return drawn.to(operator.device, operator.dtype)


def _decomposed(operator: Jacobian) -> LipschitzEstimate:
    """The value of a small map from the singular value decomposition of its matrix: no randomness."""
    _, values, right = finite_svd(operator.dense().detach())
    return LipschitzEstimate(
        lower=values[..., 0],
        upper=_raised(values[..., 0], 1.0),
        failure_probability=0.0,
        steps=operator.domain[-2:].numel(),
        residual=torch.zeros_like(values[..., 0]),
        error=torch.zeros_like(values[..., 0]),
        direction=right[..., 0, :].reshape(operator.domain),
    )


def finite_svd(matrix: Float[Tensor, "*batch rows columns"]) -> tuple[Tensor, Tensor, Tensor]:
    """The reduced decomposition; singular values that are not numbers where the matrix holds one that is not finite.

    LAPACK would raise an error for the whole batch; such a sample must end as "not known" and leave the others alone.
    """
    finite = torch.isfinite(matrix).flatten(-2).all(-1)
    left, values, right = torch.linalg.svd(torch.where(finite[..., None, None], matrix, 0.0), full_matrices=False)
    return left, torch.where(finite[..., None], values, torch.nan), right


def _raised(lower: Float[Tensor, "*batch"], factor: float) -> Float[Tensor, "*batch"]:
    """lower times factor with the margin for rounding; an infinite factor promises nothing, not even for zero."""
    margin = ROUNDING_MARGIN if lower.dtype == torch.float64 else ROUNDING_MARGIN_SINGLE
    return torch.full_like(lower, math.inf) if math.isinf(factor) else lower * (factor * (1 + margin))


def _next(
    vector: Float[Tensor, "*batch size"], basis: Float[Tensor, "*batch steps size"], scale: Float[Tensor, "*batch"]
) -> tuple[Float[Tensor, "*batch size"], Float[Tensor, "*batch"]]:
    """The part of `vector` orthogonal to the basis as unit vector and norm; a fresh direction and 0 where none is left.

    A fresh vector is orthogonalised twice; where the basis fills the space it is zero.
    """
    unit, size = _normalized(_orthogonal(vector, basis), scale)
    if bool((size > 0).all()):
        return unit, size
    seeded = torch.Generator().manual_seed(basis.shape[-2])
    fresh = standard_normal(vector.shape, seeded, vector)
    fresh, _ = _normalized(_orthogonal(fresh, basis), torch.full_like(scale, math.sqrt(vector.shape[-1])))
    fresh, _ = _normalized(_orthogonal(fresh, basis), torch.ones_like(scale))
    return torch.where(size[..., None] > 0, unit, fresh), size


def _orthogonal(vector: Float[Tensor, "*batch size"], basis: Float[Tensor, "*batch steps size"]) -> Tensor:
    """`vector` minus its components along the basis, and once more where the first pass took away half of it.

    (Daniel, Gragg, Kaufman, Stewart 1976.) Sample by sample, because a batched product of tall matrices with one
    column is several times slower on a CPU.
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
    noise = BREAKDOWN_ULPS * torch.finfo(vector.dtype).eps
    size = torch.where(size > noise * scale, size, torch.zeros_like(size))
    safe = torch.where(size > 0, size, torch.ones_like(size))[..., None]
    return torch.where(size[..., None] > 0, vector / safe, torch.zeros_like(vector)), size

"""The bounds of Castin, Ablin and Peyre (How Smooth Is Attention?, ICML 2024), under the paper's names.

Biases enter as in docs/proofs/operator.md#biases: the query A x_i becomes A x_i + a, so |A| R^2 becomes
kappa = (|A| R + |a|) R wherever the query itself appears. Without biases every formula is the paper's.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.mask import Mask
from robust_attn.bounds.bound import Bound, from_log_constant, not_applicable
from robust_attn.bounds.setting import BallSetting, joined_heads
from robust_attn.types import Scope, Side


def discrete_upper(ball: BallSetting) -> Bound:
    """Discrete upper bound: Lip <= sqrt(3) |V| (|A|^2 R^4 (4n + 1) + n)^{1/2}, masked too; equal masses."""
    name = "paper.discrete"
    if not ball.uniform:
        return not_applicable(name, "it is stated for tokens of equal mass", Scope.GLOBAL)
    n = ball.length
    inside = 4 * n * ball.key_reach**2 + ball.query_reach**2 + n
    log_constants = 0.5 * (math.log(3) + inside.log())
    return _bound(name, joined_heads(ball.norms, log_constants), ball)


def mean_field_upper(ball: BallSetting) -> Bound:
    """Mean-field upper bound: Lip_W2 <= |V| (1 + 3 |A| R^2) e^{2 |A| R^2}, for any number of tokens and any masses."""
    name = "paper.mean_field"
    if ball.mask is not Mask.NONE:
        return not_applicable(name, "it is stated without a mask; see paper.masked_mean_field", Scope.GLOBAL)
    if not ball.averaged:
        return not_applicable(name, "it is stated in the norm weighted by the masses", Scope.GLOBAL)
    exponent = ball.largest_reach
    return _bound(name, joined_heads(ball.norms, (1 + 3 * exponent).log() + 2 * exponent), ball)


def masked_mean_field_upper(ball: BallSetting) -> Bound:
    """Masked mean field in the averaged metric: |V| (2 (1 + 2 k) e^{2 k} + k), k = kappa (Hardy's constant 2 at p = 2).

    The published reading ("the same upper bound as unmasked") fails in this metric: with A = 0 and V = I the map is the
    Cesaro mean, of norm 1.144 at n = 2 and tending to 2. It is never used here.
    """
    name = "paper.masked_mean_field"
    if ball.mask is not Mask.CAUSAL:
        return not_applicable(name, "it is stated for causal masks", Scope.GLOBAL)
    if not ball.averaged:
        return not_applicable(name, "it is stated in the norm weighted by the masses", Scope.GLOBAL)
    exponent = ball.largest_reach
    averaged = math.log(2) + (1 + 2 * exponent).log() + 2 * exponent
    return _bound(name, joined_heads(ball.norms, torch.logaddexp(averaged, exponent.clamp_min(1e-300).log())), ball)


def discrete_lower(A: Float[Tensor, "d d"], *, radius: float, length: int) -> Bound:
    """Discrete lower bound for V = I: Lip >= sqrt(n-1) / (1 + (n-1) e^{-2 R^2 gamma}).

    gamma = max(-gamma_min, gamma_max / 8) over the real eigenvalues of A.
    """
    name = "paper.discrete_lower"
    gamma = _gamma(A)
    if gamma is None:
        return not_applicable(name, "A has no real eigenvalue", Scope.GLOBAL, Side.LOWER)
    if length < 2:
        return not_applicable(name, "it needs at least two tokens", Scope.GLOBAL, Side.LOWER)
    log_constant = 0.5 * math.log(length - 1) - math.log1p((length - 1) * math.exp(-2 * radius * radius * gamma))
    return from_log_constant(name, log_constant, 1.0, Scope.GLOBAL, side=Side.LOWER)


def mean_field_lower(A: Float[Tensor, "d d"], *, radius: float) -> Bound:
    """Mean-field lower bound for V = I, of the order (gamma / 2) R^2 e^{gamma R^2}, at n ~ e^{2 gamma R^2} tokens."""
    name = "paper.mean_field_lower"
    gamma = _gamma(A)
    if gamma is None or gamma <= 0:
        return not_applicable(name, "A has no real eigenvalue that makes gamma positive", Scope.GLOBAL, Side.LOWER)
    log_constant = math.log(gamma / 2 * radius * radius) + gamma * radius * radius
    return from_log_constant(name, log_constant, 1.0, Scope.GLOBAL, side=Side.LOWER)


def adversarial_tokens(A: Float[Tensor, "d d"], *, radius: float, length: int) -> Float[Tensor, "n d"]:
    """The configuration behind `discrete_lower`: one token far from the others along a real eigenvector of A."""
    values, vectors = torch.linalg.eig(A)
    real = values.imag.abs() <= 1e-9 * values.abs().clamp_min(1e-300)
    if not bool(real.any()):
        raise ValueError("A has no real eigenvalue")
    eigenvalues, eigenvectors = values.real[real], vectors.real[:, real]
    largest, smallest = int(eigenvalues.argmax()), int(eigenvalues.argmin())
    if eigenvalues[largest] > -8 * eigenvalues[smallest]:
        u = eigenvectors[:, largest] / eigenvectors[:, largest].norm()
        return torch.stack([radius * u] + [radius * u / 2] * (length - 1))
    u = eigenvectors[:, smallest] / eigenvectors[:, smallest].norm()
    return torch.stack([-radius * u] + [radius * u] * (length - 1))


def _gamma(A: Float[Tensor, "d d"]) -> float | None:
    values = torch.linalg.eigvals(A.double())
    real = values.real[values.imag.abs() <= 1e-9 * values.abs().clamp_min(1e-300)]
    return None if real.numel() == 0 else max(-float(real.min()), float(real.max()) / 8)


def _bound(name: str, log_constant: float, ball: BallSetting) -> Bound:
    return from_log_constant(name, log_constant + math.log(ball.stretch), ball.budget_radius, Scope.GLOBAL)

"""Sharper global bounds on a ball (docs/proofs/global.md#unified and below, docs/proofs/lower.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.mask import Mask
from robust_attn.bounds.bound import Bound, from_log_constant, not_applicable
from robust_attn.bounds.setting import BallSetting, joined_heads
from robust_attn.types import Scope, Side

GRID = 64
"""Angles and lengths tried for the two keys of a lower bound."""


def unified_upper(ball: BallSetting) -> Bound:
    """Lip <= |V| (sqrt(c) sqrt(1 + kappa^2) + a): c = mixing covers few tokens (c <= n) and many (c <= e^{2 kappa}).

    Row i of the key part has, in L2(P_i), the norm |V (I + |q_i|^2 C_i) V^T|^{1/2}; Jensen and the column sums of P do
    the rest. With rotary positions or sinks the cross terms stay and sqrt(1 + kappa^2) becomes 1 + kappa.
    """
    pull = ball.key_reach
    row = (1 + pull**2).sqrt() if ball.even_slopes else 1 + pull
    constants = ball.mixing().sqrt() * row + ball.query_reach
    return _bound("sharp.unified", joined_heads(ball.norms, constants.log()), ball)


def half_square_upper(ball: BallSetting) -> Bound:
    """Lip <= |V| (sqrt(n) + a (1 + sqrt(n/2))), masked too; equal masses, no biases, no rotation, no sinks."""
    name = "sharp.half_square"
    if not ball.uniform:
        return not_applicable(name, "it is stated for tokens of equal mass", Scope.GLOBAL)
    if ball.norms.has_bias or not ball.even_slopes:
        return not_applicable(name, "it is stated without biases, rotary positions and sinks", Scope.GLOBAL)
    n = ball.length
    constants = math.sqrt(n) + ball.query_reach * (1 + math.sqrt(n / 2))
    return _bound(name, joined_heads(ball.norms, constants.log()), ball)


def sharp_mean_field_upper(ball: BallSetting) -> Bound:
    """Lip <= |V| (min(sqrt n, cosh k) + a + k min(sqrt(n/2), e^k, sqrt(1 + (27/32) cosh 2k))), k = kappa; no mask.

    n is one over the smallest mass: the number of tokens if masses are equal. Biases and rotary positions may be there;
    without them k = a = |A| R^2. The bound is that of any probability measure on the ball once n is infinite.
    """
    name = "sharp.mean_field"
    if ball.mask is not Mask.NONE:
        return not_applicable(name, "it is stated without a mask", Scope.GLOBAL)
    if not ball.averaged:
        return not_applicable(name, "it is stated in the norm weighted by the masses", Scope.GLOBAL)
    length = float(ball.masses.sum() / ball.masses.min())
    return _bound(name, joined_heads(ball.norms, mean_field_log_constants(ball, length=length)), ball)


def mean_field_log_constants(ball: BallSetting, *, length: float) -> Float[Tensor, "heads"]:
    """log of `sharp_mean_field_upper` of each head with V = I, for masses of at least 1 / length; it may be infinite.

    With K_i = dP_i / dmu, of mean 1 and max K_i / min K_i <= e^{2k}, in L2(mu):
    the averaging part P has Hilbert-Schmidt norm (E K^2)^{1/2} <= cosh k (Kantorovich's inequality);
    row i of the part that pulls has the norm |q_i| (E K_i^2 (t - E K_i t)^2)^{1/2} for some t = <u, x>, |t| <= R, and
    that mean is largest if K is its minimum or maximum and t = -R or R: R^2 (1 + (27/64) (e^{2k} + e^{-2k})) at most.
    For masses of at least 1/n the two means are at most n and R^2 n/2 instead. A sink leaves K_i with a mean below 1:
    then the second mean is at most R^2 e^{2k}.
    """
    kappa, half_log = ball.kappa, math.log(length) / 2
    averaging = _log_cosh(kappa).clamp_max(half_log)
    spread = 0.5 * torch.logaddexp(torch.zeros_like(kappa), math.log(27 / 32) + _log_cosh(2 * kappa))
    spread = kappa if ball.sinks else torch.minimum(spread, kappa)
    pulling = ball.key_reach.log() + spread.clamp_max(half_log - math.log(2) / 2)
    return torch.logaddexp(torch.logaddexp(averaging, ball.query_reach.log()), pulling)


def _log_cosh(x: Float[Tensor, "heads"]) -> Float[Tensor, "heads"]:
    """log cosh x for x >= 0, without overflow."""
    return x + torch.log1p(torch.exp(-2 * x)) - math.log(2)


def token_max_upper(ball: BallSetting) -> Bound:
    """max_i |df_i| <= |V| (1 + kappa + a) max_j |dx_j|, any number of tokens, any mask (1 + 2a without biases)."""
    name = "sharp.token_max"
    if not ball.per_token:
        return not_applicable(name, "it speaks of per-token budgets", Scope.GLOBAL)
    constants = 1 + ball.key_reach + ball.query_reach
    log_constant = joined_heads(ball.norms, constants.log())
    return from_log_constant(name, log_constant, ball.budget_radius, Scope.GLOBAL)


@dataclass(frozen=True, eq=False)
class TwoKeys:
    """Tokens R(+-cos(angle) w + sin(angle) v) once each and alpha R q for all the others; v = Aq/|Aq|, w orthogonal."""

    q: Float[Tensor, "d"]
    v: Float[Tensor, "d"]
    w: Float[Tensor, "d"]
    alpha: float
    angle: float

    def tokens(self, *, radius: float, length: int) -> Float[Tensor, "n d"]:
        """The configuration itself, the two keys first."""
        aside, along = math.cos(self.angle) * self.w, math.sin(self.angle) * self.v
        return radius * torch.stack([aside + along, along - aside] + [self.alpha * self.q] * (length - 2))


def one_key_lower(A: Float[Tensor, "d d"], *, radius: float, length: int) -> Bound:
    """Lip >= sqrt(n-1) P (1 + 2 g R^2 (1-P)), P = 1/(1 + (n-1) e^{-2 g R^2}); V = I, no mask; no eigenvalues needed.

    g = (|Ax| - <Ax, x>)/2 at x = `one_key_query(A)`. Every x of the unit ball gives a lower bound, so it holds whether
    or not the search for x found the best one. Attained by `one_key_tokens`.
    """
    name = "sharp.one_key_lower"
    if length < 2:
        return not_applicable(name, "it needs at least two tokens", Scope.GLOBAL, Side.LOWER)
    x = one_key_query(A)
    lead = radius * radius * float((A.double() @ x).norm() - x @ (A.double() @ x))
    log_share = -math.log1p((length - 1) * math.exp(-lead))
    pull = 1 - lead * math.expm1(log_share)
    log_constant = 0.5 * math.log(length - 1) + log_share + math.log(pull)
    return from_log_constant(name, log_constant, 1.0, Scope.GLOBAL, side=Side.LOWER)


def one_key_tokens(A: Float[Tensor, "d d"], *, radius: float, length: int) -> Float[Tensor, "n d"]:
    """The configuration behind `one_key_lower`: R Ax/|Ax| once, first, and R x for all the others."""
    x = one_key_query(A)
    image = A.double() @ x
    return radius * torch.stack([image / image.norm().clamp_min(1e-300)] + [x] * (length - 1))


def one_key_query(A: Float[Tensor, "d d"], *, steps: int = 60) -> Float[Tensor, "d"]:
    """The largest |Ax| - <Ax, x> over |x| <= 1 that ascent finds from singular vectors and eigenvectors of A."""
    A = A.double() / torch.linalg.matrix_norm(A.double(), 2).clamp_min(1e-300)  # the maximiser does not depend on it
    starts = _directions(A)
    best, value = _scaled(A, starts), _lead(A, _scaled(A, starts))
    step = torch.ones_like(value)
    for _ in range(steps):
        image = best @ A.T
        slope = image / image.norm(dim=-1, keepdim=True).clamp_min(1e-300) @ A - image - best @ A
        tried = best + step[:, None] * slope
        tried = _scaled(A, tried / tried.norm(dim=-1, keepdim=True).clamp_min(1e-300))
        better = _lead(A, tried) > value
        best = torch.where(better[:, None], tried, best)
        value = torch.where(better, _lead(A, tried), value)
        step = torch.where(better, 2 * step, step / 2)
    return best[int(value.argmax())]


def two_key_lower(A: Float[Tensor, "d d"], V: Float[Tensor, "out d"], *, radius: float, length: int) -> Bound:
    """Lip >= sqrt((n-2)/2) alpha |Aq| R^2 cos(t) |Vw| / (1 + ((n-2)/2) e^{-D}).

    D = R^2 (alpha sin(t) |Aq| - alpha^2 <Aq, q>) is by how much the two keys beat the others. Of the order
    R^2 sqrt(n). No mask. Every q, alpha, t and w gives one, so it holds whether or not the grid behind `two_keys` found
    the best ones. Attained by the tokens of `two_keys`.
    """
    name = "sharp.two_key_lower"
    if length < 3 or A.shape[-1] < 2:
        return not_applicable(name, "it needs three tokens and two dimensions", Scope.GLOBAL, Side.LOWER)
    keys = two_keys(A, V, radius=radius, length=length)
    angle, alpha = (torch.tensor(value, dtype=torch.float64, device=A.device) for value in (keys.angle, keys.alpha))
    log_constant = float(_log_two_keys(A.double(), V.double(), keys, angle, alpha, radius=radius, length=length))
    return from_log_constant(name, log_constant, 1.0, Scope.GLOBAL, side=Side.LOWER)


def two_keys(A: Float[Tensor, "d d"], V: Float[Tensor, "out d"], *, radius: float, length: int) -> TwoKeys:
    """The best configuration on a grid: q among singular vectors and eigenvectors, w the steepest of V beside v."""
    A, V = A.double(), V.double()
    angle = torch.linspace(0, math.pi / 2, GRID + 1, dtype=torch.float64, device=A.device)[:-1, None]
    alpha = torch.linspace(0, 1, GRID + 1, dtype=torch.float64, device=A.device)[None, 1:]
    found: list[tuple[float, TwoKeys]] = []
    for q in (*_directions(A), one_key_query(A)):
        q = q / q.norm().clamp_min(1e-300)  # noqa: PLW2901
        v = A @ q / (A @ q).norm().clamp_min(1e-300)
        beside = torch.eye(len(v), dtype=torch.float64, device=A.device) - torch.outer(v, v)
        w = torch.linalg.svd(V @ beside).Vh[0]
        keys = TwoKeys(q, v, beside @ w / (beside @ w).norm().clamp_min(1e-300), 1.0, 0.0)
        values = _log_two_keys(A, V, keys, angle, alpha, radius=radius, length=length)
        row, column = divmod(int(values.argmax()), GRID)
        best = replace(keys, alpha=float(alpha[0, column]), angle=float(angle[row, 0]))
        found.append((float(values.max()), best))
    return max(found, key=lambda entry: entry[0])[1]


def _log_two_keys(
    A: Tensor, V: Tensor, keys: TwoKeys, angle: Tensor, alpha: Tensor, *, radius: float, length: int
) -> Tensor:
    image, half = A @ keys.q, (length - 2) / 2
    lead = radius * radius * (alpha * angle.sin() * image.norm() - alpha**2 * (image @ keys.q))
    slope = alpha * image.norm() * radius * radius * angle.cos() * (V @ keys.w).norm()
    return 0.5 * math.log(half) + slope.log() - torch.log1p(half * torch.exp(-lead))


def _directions(A: Float[Tensor, "d d"]) -> Float[Tensor, "m d"]:
    """Unit vectors worth trying: right singular vectors, eigenvectors of the symmetric part, real eigenvectors."""
    values, vectors = torch.linalg.eig(A)
    real = vectors.real[:, values.imag.abs() <= 1e-9 * values.abs().clamp_min(1e-300)].T
    return torch.cat([torch.linalg.svd(A).Vh, torch.linalg.eigh((A + A.T) / 2).eigenvectors.T, real])


def _lead(A: Tensor, x: Float[Tensor, "m d"]) -> Float[Tensor, "m"]:
    """|Ax| - <Ax, x>: by how much the key Ax/|Ax| beats x for the query x."""
    image = x @ A.T
    return image.norm(dim=-1) - (image * x).sum(-1)


def _scaled(A: Tensor, u: Float[Tensor, "m d"]) -> Float[Tensor, "m d"]:
    """Unit vectors scaled to the length in (0, 1] at which t |Au| - t^2 <Au, u> is largest."""
    image = u @ A.T
    own = (image * u).sum(-1)
    best = torch.where(own > 0, image.norm(dim=-1) / (2 * own).clamp_min(1e-300), 1.0)
    return best.clamp_max(1.0)[:, None] * u


def _bound(name: str, log_constant: float, ball: BallSetting) -> Bound:
    return from_log_constant(name, log_constant + math.log(ball.stretch), ball.budget_radius, Scope.GLOBAL)

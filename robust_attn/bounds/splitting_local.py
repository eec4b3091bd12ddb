"""The constant of `split.local` (docs/proofs/splitting.md#split-local): Taylor for measures whose atoms split freely.

mu = sum_j m_j delta_{x_j}, pi couples it with nu on the ball of radius R, d = y - x, E|d|^2 <= eps^2. In L2(pi)

    Gamma_nu(y) - Gamma_mu(x_i) = [Gamma_nu(x_i) - Gamma_mu(x_i)] + [Gamma_nu(y) - Gamma_nu(x_i)]

**Keys.** With g the slope of row i's logits, u = V x and t = <g, d>, the first bracket of a head is exactly
Z_i(mu) / Z_i(nu) sum_j P_ij E[(u_j - Gamma_i) t + V d + (u_j - Gamma_i)(e^t - 1 - t) + V d (e^t - 1) | x_j]. The linear
terms are the key part of the derivative at mu, applied to E[d | x_j]; the others at most a multiple of E[|d|^2 | x_j].

**Queries.** Pairs with |d| <= r: Gamma_nu is Lipschitz near x_i. Pairs with |d| > r: both brackets together are at most
a known number, so that number over r times |d|. A remainder in |d|^2 would not do: slivers go far, E|d|^4 is not small.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.bounds.interval import MARGIN
from robust_attn.bounds.joint_norms import JointNorms
from robust_attn.bounds.split_rows import AtomSpread, Near, SplitRows, near
from robust_attn.spectral.matrix_norms import covariance_norm_upper, norm_upper
from robust_attn.spectral.norms import HeadNorms

FORM_ELEMENTS = 2**20
"""Numbers in one block of heads x heads matrices: 8 MB in float64."""
DISTANCES = 64
DISTANCE_RATIO = 1.2
"""The distances at which near and far may part: 2 R and 63 smaller ones, down to R / 50 000."""


def local_constant(
    rows: SplitRows, norms: HeadNorms, joint: JointNorms, hull: Float[Tensor, "n"], *, eps: float, support: float
) -> float:
    """(E_pi |Gamma_nu(y) - Gamma_mu(x)|^2)^{1/2} <= eps times this; infinite where nothing finite can be said.

    `hull` bounds |Gamma_nu(y) - Gamma_mu(x_i)| for every nu. With c_K for the keys, c_n for queries that move at most r
    and c_f for those that move more, it is (c_K^2 + 2 c_K c_n + max(c_n, c_f)^2)^{1/2}, at the best r of a grid.
    """
    start = near(rows, norms, 0.0, support=support)
    keys = key_part(rows, norms, joint) + _normalizer_part(rows, norms, start, eps)
    keys += _exp(_log(eps) + _log_curvature(rows, norms, start, eps))
    if not math.isfinite(keys):
        return math.inf
    distances = [2 * support * DISTANCE_RATIO**-step for step in reversed(range(DISTANCES))]
    close, far, last = [], [], None
    for distance in distances:
        at = near(rows, norms, distance, support=support)
        close.append(query_lipschitz(rows, norms, joint, at, eps).max())
        if last is not None:
            far.append((torch.minimum(query_change(rows, norms, joint, at, eps), hull) / last).max())
        last = distance
    beyond = torch.stack([*far, torch.zeros_like(close[0])]).flip(0).cummax(0).values.flip(0)
    within = torch.stack(close)
    squared = keys * keys + 2 * keys * within + torch.maximum(within, beyond) ** 2
    return float(_certain(squared).min().sqrt()) * MARGIN


def key_part(rows: SplitRows, norms: HeadNorms, joint: JointNorms) -> float:
    """An upper value of the key part of the derivative in L2(mu): the smaller of two.

    Heads together: sum_h P_h (x) V_h = mean_h P_h (x) sum_h V_h + sum_h (P_h - mean) (x) V_h, plus the part that pulls.
    Heads apart: rows |V (I + |g|^2 C) V^T|^{1/2} of every head, put together by Cauchy-Schwarz
    (docs/proofs/splitting.md#keys).
    """
    root = rows.masses.sqrt()
    scaled = rows.log_upper.exp() * root[:, None] / root
    mean = scaled.mean(0)
    rest = scaled - mean
    off = 2 * float((2 * rows.weight_error).clamp_max(1.0).max() * norm_upper(scaled).max())  # each of the rest may be
    stacked = max(float(norm_upper(torch.cat(tuple(rest), dim=axis))) for axis in (0, 1)) + math.sqrt(len(rest)) * off
    uneven = min(norms.stacked_value * stacked, float(((norm_upper(rest) + off) * norms.value).sum()))
    together = float(norm_upper(mean)) * joint.total_value + uneven + _pulling(rows, norms)
    return min(together, _columns(rows, _row_norms(rows, norms)))


def _pulling(rows: SplitRows, norms: HeadNorms) -> float:
    """Rows sum_h sum_j P_ij (u_j - Gamma_i) <g_i, d_j>, by Cauchy-Schwarz over heads and atoms at once."""
    apart = (rows.value.deviation**2).sum(0)
    spread = torch.minimum(apart, norms.output * norms.output * (rows.inner_value.deviation**2).amax(0))
    pull = spread[:, None] * _log_form(rows, rows.log_upper).exp()
    return float(((rows.masses[:, None] * pull).sum(0) / rows.masses).max().sqrt())


def _row_norms(rows: SplitRows, norms: HeadNorms) -> Float[Tensor, "heads n"]:
    return (norms.value[:, None] ** 2 + (rows.key_slope * rows.value.deviation) ** 2).sqrt()


def _columns(rows: SplitRows, row_norms: Float[Tensor, "heads n"]) -> float:
    """Rows of heads with these norms in L2(P_i), added up and put together in L2(mu)."""
    columns = row_norms.sum(0)[:, None] * (row_norms[..., None] * rows.log_upper.exp()).sum(0)
    return float(((rows.masses[:, None] * columns).sum(0) / rows.masses).max().sqrt())


def _normalizer_part(rows: SplitRows, norms: HeadNorms, start: Near, eps: float) -> float:
    """What Z_i(mu) / Z_i(nu) != 1 adds to the linear terms. e^-b <= Z_i(nu) / Z_i(mu) <= 1 + b + q."""
    b = _log_growth(rows, start, eps)
    q = (2 * _log(eps) + 2 * start.slope.log() + start.log_second.amax(-1)).exp()
    excess = torch.maximum(torch.expm1(b), 1 - 1 / (1 + b + q))
    return _columns(rows, excess * _row_norms(rows, norms))


def _log_growth(rows: SplitRows, at: Near, eps: float) -> Float[Tensor, "heads n"]:
    """b with Z(mu) / Z(nu) <= e^b at every query near: |g| eps (sum_j P_j^2 / m_j)^{1/2}, by Jensen's inequality."""
    return at.slope * eps * (at.ceiling**2 / rows.masses).sum(-1).sqrt()


def _log_curvature(rows: SplitRows, norms: HeadNorms, start: Near, eps: float) -> float:
    """log of a C such that the quadratic terms of the keys are at most C eps^2: docs/proofs/splitting.md#keys."""
    growth = _log_growth(rows, start, eps)[..., None]
    second = growth + start.log_second + rows.value.distance.log()
    matrix = _log_remainder(rows, norms, start, second, growth + start.log_first)
    return float((torch.logsumexp(rows.masses.log()[:, None] + 2 * matrix, dim=0) / 2).max())


def _log_remainder(
    rows: SplitRows, norms: HeadNorms, at: Near, second: Float[Tensor, "heads n m"], first: Float[Tensor, "heads n m"]
) -> Float[Tensor, "n m"]:
    """log of c with sum_h a_h t_h^2 + |sum_h b_h V_h d| <= c |d|^2 if |b_h| <= e^first |t_h|; log a = second.

    One displacement cannot follow the slopes of all heads at once: sum_h a_h t_h^2 is a quadratic form of d. On the way
    from x_i the slopes change by |A_h| times the distance at most.
    """
    interaction = norms.interaction.log()[:, None, None]
    drift = _log(at.distance)

    def root(log_weights: Tensor) -> Tensor:
        moved = drift + torch.logsumexp(log_weights + 2 * interaction, dim=0) / 2
        return torch.logaddexp(_log_form(rows, log_weights) / 2, moved)

    apart = torch.logsumexp(norms.value.log()[:, None, None] + first + at.slope.log()[..., None], dim=0)
    together = _log(norms.stacked_value) + root(2 * first)
    return torch.logaddexp(2 * root(second), torch.minimum(apart, together))


def _log_form(rows: SplitRows, log_weights: Float[Tensor, "heads n m"]) -> Float[Tensor, "n m"]:
    """log of the largest eigenvalue of sum_h w_h g_h g_h^T at every row, in blocks of rows.

    The slopes are known up to `key_error`, by which they have also been lengthened: twice that adds to the root.
    """
    weights = log_weights + 2 * rows.key_slope.log()[..., None]
    top = weights.amax(0)
    top = torch.where(top == -torch.inf, torch.zeros_like(top), top)
    roots = ((weights - top) / 2).exp().movedim(0, -1)
    size = max(1, FORM_ELEMENTS // (roots.shape[1] * roots.shape[2] ** 2))
    blocks = zip(roots.split(size), rows.unit_gram.split(size), strict=True)
    norms = [covariance_norm_upper(root[..., :, None] * gram[:, None] * root[..., None, :]) for root, gram in blocks]
    off = torch.logsumexp(log_weights + 2 * (2 * rows.key_error).log()[:, None, None], dim=0)
    return 2 * torch.logaddexp((torch.cat(norms).log() + top) / 2, off / 2)


def query_lipschitz(rows: SplitRows, norms: HeadNorms, joint: JointNorms, at: Near, eps: float) -> Float[Tensor, "n"]:
    """|Gamma_nu(y) - Gamma_nu(z)| <= this |y - z| for y, z near x_i: the derivative is a sum of covariances under nu.

    Deviations of W_O v and of the logits' slopes added up over heads; or |W_O| |W_Q| times those of v and k, of which
    only the largest head counts.
    """
    value = _deviation(rows, at, rows.value, norms.value, eps)
    slope = _deviation(rows, at, rows.slope, norms.interaction, eps)
    inner = _deviation(rows, at, rows.inner_value, norms.inner_value, eps)
    key = _deviation(rows, at, rows.key, joint.key, eps)
    together = norms.output * joint.query * (inner * key).amax(0)
    return torch.minimum(_certain((value * slope).sum(0)), _certain(together))


def _deviation(
    rows: SplitRows, at: Near, spread: AtomSpread, size: Float[Tensor, "heads"], eps: float
) -> Float[Tensor, "heads n"]:
    """Standard deviation of W z under nu at any query near x_i, |W| = size: by Minkowski that of W x_j at the source
    atoms plus that of W d.

    Under nu atom j draws P_j E[e^t | x_j], at most P_j + P_j |g| |E[d | x_j]| + m_j e^log_second |g|^2 E[|d|^2 | x_j].
    """
    growth, distance = _log_growth(rows, at, eps), spread.distance
    ratio = torch.where(torch.isinf(at.ratio), torch.inf, at.ratio * spread.deviation**2)
    squared = torch.minimum(ratio, (at.ceiling * distance**2).sum(-1))
    squared = squared + at.slope * eps * (at.ceiling**2 * distance**4 / rows.masses).sum(-1).sqrt()
    quadratic = (2 * at.slope.log()[..., None] + at.log_second + 2 * distance.log()).amax(-1)
    squared = squared + (2 * _log(eps) + quadratic).exp()
    moved = _log(eps) + size.log()[:, None] + (growth + at.log_peak) / 2
    return (growth / 2).exp() * squared.sqrt() + moved.exp()


def query_change(rows: SplitRows, norms: HeadNorms, joint: JointNorms, at: Near, eps: float) -> Float[Tensor, "n"]:
    """|Gamma_nu(y) - Gamma_mu(x_i)| at most, for any y near x_i: Gamma_mu(y) - Gamma_mu(x_i), and what nu changes at y.

    The first is at most the distance times a Lipschitz constant, and at most the distance of the farthest value.
    """
    farthest = rows.value.distance.amax(-1)
    inner = norms.output * (rows.inner_value.distance.amax(-1) ** 2).sum(0).sqrt()
    moved = torch.minimum(farthest.sum(0), inner)
    moved = torch.minimum(moved, at.distance * query_lipschitz(rows, norms, joint, at, 0.0))
    growth = _log_growth(rows, at, eps)
    distance = rows.value.distance + farthest[..., None]
    pull = at.slope * (at.ceiling**2 * distance**2 / rows.masses).sum(-1).sqrt()
    carry = norms.value[:, None] * (at.ceiling**2 / rows.masses).sum(-1).sqrt()
    second = growth + (at.log_second + distance.log()).amax(-1)
    first = growth + at.log_first.amax(-1)
    remainder = _log_remainder(rows, norms, at, second[..., None], first[..., None])[:, 0]
    linear = eps * (growth.exp() * (pull + carry)).sum(0)
    return _certain(moved + linear + (2 * _log(eps) + remainder).exp())


def _certain(upper: Tensor) -> Tensor:
    """Upper values with infinity where overflow left no number (zero times infinity)."""
    return upper.nan_to_num(nan=math.inf, posinf=math.inf)


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf

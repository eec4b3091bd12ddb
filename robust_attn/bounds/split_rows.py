"""Attention, spreads, and what a point of the ball can draw: docs/proofs/splitting.md#what-a-point-can-draw."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from robust_attn.attention.jacobian import Projections, project, weighted_logits
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import visible
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.rounding import UNIT, Rounding, Sizes, rounding_at
from robust_attn.bounds.interval import log_ceiling, softmax_interval, widened
from robust_attn.bounds.rows import KNOWN_LOGITS, known_attention, spread
from robust_attn.spectral.norms import HeadNorms

DEEPEST = 1e6
"""Depths are cut off here; what they bound decreases with the depth, so the cut is on the safe side."""
PAIR_ELEMENTS = 2**21
"""Numbers in one (heads, rows, atoms, head width) block: 16 MB in float64."""
SMALL = 0.02
"""Below it psi_2 is taken from its series."""


@dataclass(frozen=True, eq=False)
class AtomSpread:
    """Distances of points from their mean under every row of attention (zero if unseen), and the largest deviation.

    Upper values, from the mean under the exact weights.
    """

    distance: Float[Tensor, "heads n n"]
    deviation: Float[Tensor, "heads n"]


@dataclass(frozen=True, eq=False)
class SplitRows:
    """One sample without padding. `value` spreads W_O v, `inner_value` v, `slope` the logits' slopes in x_i, `key` k.

    With g_i the slope of row i's logits in the attended point: `key_slope` is |g_i|, `unit_gram` holds the cosines
    between heads, and `log_peak` log(e^{|g_i| R + b_i} / Z_i), Z_i = sum_j m_j e^{s_ij}, b_i the largest bias by
    position that the row sees: no point of the ball can draw more per mass. `mean_slope` is the norm of the mean of the
    slopes in x_i. All are upper values; log P is known up to `logit_error`, and the cosines up to `key_error` in the
    slopes.
    """

    masses: Float[Tensor, "n"]
    log_p: Float[Tensor, "heads n n"]
    logit_error: Float[Tensor, "heads"]
    seen: Bool[Tensor, "1 n n"]
    value: AtomSpread
    inner_value: AtomSpread
    slope: AtomSpread
    key: AtomSpread
    key_slope: Float[Tensor, "heads n"]
    unit_gram: Float[Tensor, "n heads heads"]
    log_peak: Float[Tensor, "heads n"]
    mean_slope: Float[Tensor, "heads n"]
    key_error: Float[Tensor, "heads"]

    @property
    def log_upper(self) -> Float[Tensor, "heads n n"]:
        """log of what no attention weight exceeds, whatever rounding did."""
        return (self.log_p + 2 * self.logit_error[:, None, None]).clamp_max(0.0)

    @property
    def weight_error(self) -> Float[Tensor, "heads"]:
        """By what part an attention weight may exceed the one in `log_p`."""
        return weight_excess(self.logit_error, self.masses.shape[0])


@dataclass(frozen=True, eq=False)
class Near:
    """Upper values for every query within `distance` of x_i: attention, its growth, slopes, and Taylor coefficients.

    A point z of the ball draws e^{<g, z>} / Z. Moved there from x_j by d, with t = <g, d> <= t_max, it draws
    P_ij / m_j times e^t, and e^t - 1 <= phi_1(t_max) t, e^t - 1 - t <= phi_2(t_max) t^2 for phi_1 = (e^t - 1) / t and
    phi_2 = (e^t - 1 - t) / t^2. `log_first` and `log_second` are log(P_ij / m_j phi(t_max)).
    """

    distance: float
    ceiling: Float[Tensor, "heads n n"]
    ratio: Float[Tensor, "heads n"]
    slope: Float[Tensor, "heads n"]
    log_peak: Float[Tensor, "heads n"]
    log_first: Float[Tensor, "heads n n"]
    log_second: Float[Tensor, "heads n n"]


def split_rows(layer: AttentionLayer, measure: TokenMeasure, *, support: float, unit: float = UNIT) -> SplitRows:
    """Everything at the atoms of one sample without padding, in float64; no rotary positions."""
    layer = replace(layer, key_bias=torch.zeros_like(layer.key_bias))  # softmax drops it
    parts, error, sizes = project(layer, measure), rounding_at(layer, measure, unit=unit), Sizes.of(layer, measure)
    logits = weighted_logits(layer, measure, parts, slice(None))
    seen = visible(layer.mask, measure.positions, measure.masses).unsqueeze(0)
    log_p, known_to = known_attention(logits.log_softmax(-1), error.logit, seen)
    slopes = (parts.q @ layer.key[layer.head_groups] * layer.scale).transpose(0, 1)
    size = slopes.norm(dim=-1)
    unit_slopes = slopes / torch.where(size > 0, size, torch.ones_like(size))[..., None]
    key_slope = size.T + error.key_slope[:, None]
    spreads = _spreads(layer, log_p, parts, error, projected=unit * (measure.length + layer.width + 20), sizes=sizes)
    return SplitRows(
        masses=measure.masses,
        log_p=log_p,
        logit_error=known_to,
        seen=seen,
        **spreads,
        key_slope=key_slope,
        unit_gram=unit_slopes @ unit_slopes.transpose(-1, -2),
        log_peak=key_slope * support
        + _largest_bias(layer, measure, seen)
        - logits.logsumexp(-1)
        + error.logit[:, None],
        mean_slope=_mean_slope(layer, log_p, parts, error, sizes),
        key_error=error.key_slope,
    )


def _largest_bias(layer: AttentionLayer, measure: TokenMeasure, seen: Tensor) -> Float[Tensor, "heads n"]:
    """max_j b_ij over the atoms that row i sees."""
    if layer.position_bias is None:
        return torch.zeros(layer.heads, measure.length, dtype=torch.float64)
    return torch.where(seen, layer.position_bias.between(measure.positions), -torch.inf).amax(-1)


def _spreads(
    layer: AttentionLayer,
    log_p: Float[Tensor, "heads n n"],
    parts: Projections,
    error: Rounding,
    *,
    projected: float,
    sizes: Sizes,
) -> dict[str, AtomSpread]:
    """Values, after and before the output projection, slopes of the logits in x_i, and keys."""
    output_factor = torch.linalg.qr(layer.output, mode="r").R
    query_factor = torch.linalg.qr(layer.query.transpose(-1, -2), mode="r").R * layer.scale
    points = {
        "value": (parts.v @ output_factor.transpose(-1, -2), error.value),
        "inner_value": (parts.v, projected * sizes.values),
        "slope": (parts.k @ query_factor.transpose(-1, -2), error.query_slope),
        "key": (parts.k, projected * sizes.keys),
    }
    weight = weight_excess(error.logit, log_p.shape[-1])
    return {name: atom_spread(log_p, of, off, weight) for name, (of, off) in points.items()}


def _mean_slope(
    layer: AttentionLayer, log_p: Float[Tensor, "heads n n"], parts: Projections, error: Rounding, sizes: Sizes
) -> Float[Tensor, "heads n"]:
    """The mean of the logits' slopes in x_i: rounding moves the slopes, and the weights by 2 in total at most."""
    found = (log_p.exp() @ parts.k @ layer.query * layer.scale).norm(dim=-1)
    weights = error.weight.clamp_max(2.0) * sizes.scale * sizes.query * sizes.keys
    return found + (error.query_slope + weights)[:, None]


def weight_excess(logit_error: Float[Tensor, "heads"], length: int) -> Float[Tensor, "heads"]:
    """e^{2e} - 1 where weights are known; equal ones, which stand for those that are not, are exceeded by n - 1."""
    known = logit_error <= KNOWN_LOGITS
    return torch.where(known, torch.expm1(2 * logit_error), torch.where(logit_error.isnan(), logit_error, length - 1.0))


def atom_spread(
    log_p: Float[Tensor, "heads n n"],
    points: Float[Tensor, "heads n k"],
    error: Float[Tensor, "heads"],
    weight_error: Float[Tensor, "heads"],
) -> AtomSpread:
    """How points known up to `error` spread under weights known up to a part, in blocks of rows."""
    blocks = log_p.split(max(1, PAIR_ELEMENTS // points.numel()), dim=1)
    found = [spread(block.exp(), points.unsqueeze(1), error) for block in blocks]
    distance = torch.where(log_p > -torch.inf, torch.cat([each.distance for each in found], dim=1), 0.0)
    off_mean = weight_error.clamp_max(1.0)[:, None, None] * distance.amax(-1, keepdim=True)
    deviation = torch.cat([each.deviation for each in found], dim=1) * (1 + weight_error).sqrt()[:, None]
    return AtomSpread(torch.where(log_p > -torch.inf, distance + off_mean, 0.0), deviation)


def near(rows: SplitRows, norms: HeadNorms, distance: float, *, support: float) -> Near:
    """Upper values over all queries within `distance` of x_i. Z falls no faster than the mean slope lets it (Jensen).

    P / m phi_k(t_max) is peak times psi_k(log(peak m / P)), psi_1(t) = (1 - e^-t) / t and
    psi_2(t) = (1 - e^-t (1 + t)) / t^2, which increases with P: so the ceiling may stand for it.
    """
    shift = distance * rows.slope.distance + rows.logit_error[:, None, None]
    _, ceiling, ratio = softmax_interval(rows.log_p, shift, rows.seen)
    interaction = norms.interaction[:, None]
    log_peak = rows.log_peak + distance * (interaction * support + rows.mean_slope)
    drawn = log_ceiling(rows.log_p, widened(shift, rows.log_p))
    depth = (log_peak[..., None] + rows.masses.log() - drawn).clamp(0.0, DEEPEST)
    first, second = (log_peak[..., None] + psi(depth).log() for psi in (psi_1, psi_2))
    return Near(
        distance=distance,
        ceiling=ceiling,
        ratio=ratio,
        slope=rows.key_slope + distance * interaction,
        log_peak=log_peak,
        log_first=first.masked_fill(~rows.seen, -torch.inf),
        log_second=second.masked_fill(~rows.seen, -torch.inf),
    )


def psi_1(t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """(1 - e^-t) / t for t >= 0."""
    return torch.where(t > 0, -torch.expm1(-t) / torch.where(t > 0, t, 1.0), 1.0)


def psi_2(t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """(1 - e^-t (1 + t)) / t^2 for t >= 0; for small t the first three terms of its series, which exceed it."""
    direct = (1 - torch.exp(-t) * (1 + t)) / torch.where(t > SMALL, t, 1.0) ** 2
    return torch.where(t > SMALL, direct, 0.5 - t / 3 + t**2 / 8)

"""What is known at the atoms given when masses are free: attention, spreads, what a point of the ball can draw."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from robust_attn.attention.jacobian import project, weighted_logits
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import visible
from robust_attn.attention.measure import TokenMeasure
from robust_attn.bounds.interval import softmax_interval
from robust_attn.spectral.norms import HeadNorms, covariance_norm_upper

DEEPEST = 1e6
"""Depths are cut off here; what they bound decreases with the depth, so the cut is on the safe side."""
PAIR_ELEMENTS = 2**21
"""Numbers in one (heads, rows, atoms, head width) block: 16 MB in float64."""
SMALL = 0.02
"""Below it psi_2 is taken from its series."""


@dataclass(frozen=True, eq=False)
class Spread:
    """Distances of points from their mean under every row of attention (zero if unseen), and the largest deviation."""

    distance: Float[Tensor, "heads n n"]
    deviation: Float[Tensor, "heads n"]


@dataclass(frozen=True, eq=False)
class SplitRows:
    """One sample without padding. `value` spreads W_O v, `inner_value` v, `slope` the logits' slopes in x_i, `key` k.

    With g_i the slope of row i's logits in the attended point: `key_slope` is |g_i|, `unit_gram` holds the cosines
    between heads, and `log_peak` log(e^{|g_i| R} / Z_i), Z_i = sum_j m_j e^{s_ij}: no point of the ball can draw more
    per mass. `mean_slope` is the norm of the mean of the slopes in x_i.
    """

    masses: Float[Tensor, "n"]
    log_p: Float[Tensor, "heads n n"]
    seen: Bool[Tensor, "1 n n"]
    value: Spread
    inner_value: Spread
    slope: Spread
    key: Spread
    key_slope: Float[Tensor, "heads n"]
    unit_gram: Float[Tensor, "n heads heads"]
    log_peak: Float[Tensor, "heads n"]
    mean_slope: Float[Tensor, "heads n"]


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


def split_rows(layer: AttentionLayer, measure: TokenMeasure, *, support: float) -> SplitRows:
    """Everything at the atoms of one sample without padding, in float64; no rotary positions."""
    layer = replace(layer, key_bias=torch.zeros_like(layer.key_bias))  # softmax drops it
    groups = layer.head_groups
    parts = project(layer, measure)
    logits = weighted_logits(layer, measure, parts, slice(None))
    log_p = logits.log_softmax(-1)
    output_factor = torch.linalg.qr(layer.output, mode="r").R
    query_factor = torch.linalg.qr(layer.query.transpose(-1, -2), mode="r").R * layer.scale
    slopes = (parts.q @ layer.key[groups] * layer.scale).transpose(0, 1)
    size = slopes.norm(dim=-1)
    unit = slopes / torch.where(size > 0, size, torch.ones_like(size))[..., None]
    return SplitRows(
        masses=measure.masses,
        log_p=log_p,
        seen=visible(layer.mask, measure.positions, measure.masses).unsqueeze(0),
        value=spread(log_p, parts.v @ output_factor.transpose(-1, -2)),
        inner_value=spread(log_p, parts.v),
        slope=spread(log_p, parts.k @ query_factor.transpose(-1, -2)),
        key=spread(log_p, parts.k),
        key_slope=size.T,
        unit_gram=unit @ unit.transpose(-1, -2),
        log_peak=size.T * support - logits.logsumexp(-1),
        mean_slope=(log_p.exp() @ parts.k @ layer.query * layer.scale).norm(dim=-1),
    )


def spread(log_p: Float[Tensor, "heads n n"], points: Float[Tensor, "heads n k"]) -> Spread:
    """How the points spread under every row of attention, in blocks of rows."""
    distances, deviations = [], []
    for block in log_p.split(max(1, PAIR_ELEMENTS // points.numel()), dim=1):
        p = block.exp()
        difference = points.unsqueeze(1) - (p @ points).unsqueeze(2)
        weighted = difference * p.sqrt()[..., None]
        deviations.append(covariance_norm_upper(weighted.transpose(-1, -2) @ weighted).sqrt())
        distances.append(torch.where(block > -torch.inf, difference.norm(dim=-1), 0.0))
    return Spread(torch.cat(distances, dim=1), torch.cat(deviations, dim=1))


def near(rows: SplitRows, norms: HeadNorms, distance: float, *, support: float) -> Near:
    """Upper values over all queries within `distance` of x_i. Z falls no faster than the mean slope lets it (Jensen).

    P / m phi_k(t_max) is peak times psi_k(log(peak m / P)), psi_1(t) = (1 - e^-t) / t and
    psi_2(t) = (1 - e^-t (1 + t)) / t^2, which increases with P: so the ceiling may stand for it.
    """
    _, ceiling, ratio = softmax_interval(rows.log_p, distance * rows.slope.distance, rows.seen)
    interaction = norms.interaction[:, None]
    log_peak = rows.log_peak + distance * (interaction * support + rows.mean_slope)
    depth = (log_peak[..., None] + (rows.masses / ceiling).log()).clamp(0.0, DEEPEST)
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

"""What is known at the tokens given, row by row: attention, and how far values and logit slopes spread under it.

`u` are values after the output projection, `y_ij` the slope of logit (i, j) in x_i; both enter through differences
alone, so QR factors of the projections replace them and no d x d matrix appears.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from robust_attn.attention.jacobian import project, weighted_logits
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import visible
from robust_attn.attention.measure import TokenMeasure
from robust_attn.spectral.norms import covariance_norm_upper

PAIR_ELEMENTS = 2**22
"""Numbers in one (rows, atoms, head width) block: 32 MB in float64."""


@dataclass(frozen=True, eq=False)
class RowBlock:
    """What is known at the tokens given about a block of rows: log P, visibility, and pairwise differences."""

    rows: slice
    log_p: Float[Tensor, "*batch heads rows n"]
    seen: Bool[Tensor, "*batch 1 rows n"]
    value_distance: Float[Tensor, "*batch heads rows n"]
    value_deviation: Float[Tensor, "*batch heads rows"]
    slope_distance: Float[Tensor, "*batch heads rows n"]
    slope_deviation: Float[Tensor, "*batch heads rows"]
    key_slope: Float[Tensor, "*batch heads rows n"]
    key_gram: Float[Tensor, "*batch rows heads heads"] | None


def row_blocks(layer: AttentionLayer, measure: TokenMeasure) -> Iterator[RowBlock]:
    """Blocks of rows, small enough that (rows, atoms, head width) differences fit into PAIR_ELEMENTS numbers."""
    parts = project(layer, measure)
    groups = [layer.group_of(head) for head in range(layer.heads)]
    output_factor = torch.linalg.qr(layer.output, mode="r").R
    query_factor = torch.linalg.qr(layer.query.transpose(-1, -2), mode="r").R * layer.scale
    key_factor = torch.linalg.qr(layer.key[groups].transpose(-1, -2), mode="r").R * layer.scale
    values = parts.v @ output_factor.transpose(-1, -2)
    per_row = values.numel() // measure.length * measure.length
    size = max(1, PAIR_ELEMENTS // max(1, per_row))
    for start in range(0, measure.length, size):
        rows = slice(start, min(start + size, measure.length))
        seen = visible(layer.mask, measure.positions, measure.masses, rows).unsqueeze(-3)
        log_p = weighted_logits(layer, measure, parts, rows).log_softmax(-1)
        p = torch.where(seen, log_p.exp(), torch.zeros_like(log_p))
        value_distance, value_deviation = _spread(p, values.unsqueeze(-3))
        slopes = _query_slopes(layer, measure, parts.k, query_factor, rows)
        slope_distance, slope_deviation = _spread(p, slopes)
        key_slope = _key_slopes(layer, measure, parts.q[..., rows, :], key_factor).expand(log_p.shape)
        gram = _key_gram(layer, parts.q[..., rows, :])
        yield RowBlock(
            rows, log_p, seen, value_distance, value_deviation, slope_distance, slope_deviation, key_slope, gram
        )


def _spread(p: Float[Tensor, "*batch rows n"], points: Float[Tensor, "*batch _ n k"]) -> tuple[Tensor, Tensor]:
    """Distances of the points from their mean under each row of p, and the largest deviation in any direction."""
    mean = (p[..., None] * points).sum(-2, keepdim=True)
    difference = points - mean
    weighted = difference * p.sqrt()[..., None]
    deviation = covariance_norm_upper(weighted.transpose(-1, -2) @ weighted).sqrt()
    return difference.norm(dim=-1), deviation


def _query_slopes(
    layer: AttentionLayer, measure: TokenMeasure, keys: Tensor, factor: Tensor, rows: slice
) -> Float[Tensor, "*batch heads _ n k"]:
    """y_ij = ds_ij/dx_i up to an isometry: the same for every row without rotation."""
    if layer.rotary is None:
        return (keys @ factor.transpose(-1, -2)).unsqueeze(-3)
    columns = []
    for row in range(rows.start, rows.stop):
        position = measure.positions[..., row : row + 1].expand(measure.positions.shape)
        columns.append(layer.rotary.rotate_back(keys, position) @ factor.transpose(-1, -2))
    return torch.stack(columns, dim=-3)


def _key_slopes(
    layer: AttentionLayer, measure: TokenMeasure, queries: Tensor, factor: Tensor
) -> Float[Tensor, "*batch heads rows _"]:
    """g_ij = |ds_ij/dx_j|: the same for every j without rotation."""
    if layer.rotary is None:
        return (queries @ factor.transpose(-1, -2)).norm(dim=-1, keepdim=True)
    columns = []
    for index in range(measure.length):
        position = measure.positions[..., index : index + 1].expand(*measure.positions.shape[:-1], queries.shape[-2])
        turned = layer.rotary.rotate_back(queries, position)
        columns.append((turned @ factor.transpose(-1, -2)).norm(dim=-1))
    return torch.stack(columns, dim=-1)


def _key_gram(layer: AttentionLayer, queries: Tensor) -> Float[Tensor, "*batch rows heads heads"] | None:
    """Inner products between heads of g_i = ds_ij/dx_j, which does not depend on j; None where a rotation makes it."""
    if layer.rotary is not None:
        return None
    groups = [layer.group_of(head) for head in range(layer.heads)]
    slopes = (layer.scale * queries @ layer.key[groups]).transpose(-2, -3)
    return slopes @ slopes.transpose(-1, -2)

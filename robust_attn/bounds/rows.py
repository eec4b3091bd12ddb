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
from robust_attn.spectral.norms import covariance_norm_upper, norm_upper

PAIR_ELEMENTS = 2**22
"""Numbers in one (rows, atoms, head width) block: 32 MB in float64."""


@dataclass(frozen=True, eq=False)
class RowBlock:
    """What is known at the tokens given about a block of rows: log P, visibility, and pairwise differences.

    `key_gram` holds inner products between heads of the logits' slopes in x_j, with one column where j does not matter;
    `query_block` bounds the norm of d f_i / d x_i through the queries: sum_h |Cov_i(u, y)|.
    """

    rows: slice
    log_p: Float[Tensor, "*batch heads rows n"]
    seen: Bool[Tensor, "*batch 1 rows n"]
    value_distance: Float[Tensor, "*batch heads rows n"]
    value_deviation: Float[Tensor, "*batch heads rows"]
    slope_distance: Float[Tensor, "*batch heads rows n"]
    slope_deviation: Float[Tensor, "*batch heads rows"]
    query_block: Float[Tensor, "*batch rows"]
    key_slope: Float[Tensor, "*batch heads rows n"]
    key_gram: Float[Tensor, "*batch rows columns heads heads"]


def row_blocks(layer: AttentionLayer, measure: TokenMeasure) -> Iterator[RowBlock]:
    """Blocks of rows, small enough that (rows, atoms, head width) differences fit into PAIR_ELEMENTS numbers."""
    parts = project(layer, measure)
    output_factor = torch.linalg.qr(layer.output, mode="r").R
    query_factor = torch.linalg.qr(layer.query.transpose(-1, -2), mode="r").R * layer.scale
    values = parts.v @ output_factor.transpose(-1, -2)
    per_row = values.numel() // measure.length * measure.length
    size = max(1, PAIR_ELEMENTS // max(1, per_row))
    for start in range(0, measure.length, size):
        rows = slice(start, min(start + size, measure.length))
        seen = visible(layer.mask, measure.positions, measure.masses, rows).unsqueeze(-3)
        log_p = weighted_logits(layer, measure, parts, rows).log_softmax(-1)
        p = torch.where(seen, log_p.exp(), torch.zeros_like(log_p))
        slopes = _query_slopes(layer, measure, parts.k, query_factor, rows)
        value_distance, value_deviation, values_apart = _spread(p, values.unsqueeze(-3))
        slope_distance, slope_deviation, slopes_apart = _spread(p, slopes)
        query_block = norm_upper(values_apart.transpose(-1, -2) @ slopes_apart).sum(-2)
        gram = _key_grams(layer, measure, parts.q[..., rows, :])
        key_slope = gram.diagonal(dim1=-1, dim2=-2).sqrt().movedim(-1, -3).expand(log_p.shape)
        yield RowBlock(
            rows=rows,
            log_p=log_p,
            seen=seen,
            value_distance=value_distance,
            value_deviation=value_deviation,
            slope_distance=slope_distance,
            slope_deviation=slope_deviation,
            query_block=query_block,
            key_slope=key_slope,
            key_gram=gram,
        )


def _spread(p: Float[Tensor, "*batch rows n"], points: Float[Tensor, "*batch _ n k"]) -> tuple[Tensor, Tensor, Tensor]:
    """Distances of the points from their mean under each row of p, the largest deviation in any direction, and
    sqrt(p) times the differences themselves, whose products are covariances.
    """
    mean = (p[..., None] * points).sum(-2, keepdim=True)
    difference = points - mean
    weighted = difference * p.sqrt()[..., None]
    deviation = covariance_norm_upper(weighted.transpose(-1, -2) @ weighted).sqrt()
    return difference.norm(dim=-1), deviation, weighted


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


def _key_grams(
    layer: AttentionLayer, measure: TokenMeasure, queries: Tensor
) -> Float[Tensor, "*batch rows columns heads heads"]:
    """Inner products between heads of g_ij = ds_ij/dx_j; one column for all j without rotation, else one for each."""
    groups = layer.head_groups
    keys = layer.scale * layer.key[groups]

    def gram(turned: Tensor) -> Tensor:
        slopes = (turned @ keys).transpose(-2, -3)
        return slopes @ slopes.transpose(-1, -2)

    if layer.rotary is None:
        return gram(queries).unsqueeze(-3)
    columns = []
    for index in range(measure.length):
        position = measure.positions[..., index : index + 1].expand(*measure.positions.shape[:-1], queries.shape[-2])
        columns.append(gram(layer.rotary.rotate_back(queries, position)))
    return torch.stack(columns, dim=-3)

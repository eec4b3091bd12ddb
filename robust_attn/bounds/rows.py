"""What is known at the tokens given, row by row: attention, and how far values and logit slopes spread under it.

`u` are values after the output projection, `y_ij` the slope of logit (i, j) in x_i; both enter through differences
alone, so QR factors of the projections replace them and no d x d matrix appears. What rounding may have taken from each
is added to it here, once: everything that follows computes with upper values
(docs/proofs/rounding.md#means-and-deviations).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from robust_attn.attention.jacobian import Projections, all_logits, project
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import visible
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.rounding import UNIT, Rounding, rounding_at
from robust_attn.bounds.bent import Bent
from robust_attn.spectral.matrix_norms import covariance_norm_upper, norm_upper

KNOWN_LOGITS = 1.0
"""Logits that err by more leave attention weights unknown: then equal weights stand for them, and every weight is
allowed, because logits that may move by ANY_LOGIT from equal ones make all of them."""
ANY_LOGIT = 1000.0
KEPT_ELEMENTS = 2**20
"""Attention weights of which the rows are kept: ten times as many numbers, 80 MB in float64."""
CACHED_ELEMENTS = 2**17
"""Numbers in differences that are looked at together: 1 MB in float64."""
PAIR_ELEMENTS = 2**22
"""Numbers in one (rows, atoms, head width) block: 32 MB in float64."""


@dataclass(frozen=True, eq=False)
class RowBlock:
    """What is known at the tokens given about a block of rows: log P, visibility, and pairwise differences.

    A sink is the last of the keys, after the atoms: it is always seen, and its logit has no slope.

    Distances and deviations are upper values, from the means under P **as computed**; exact logits are within
    `logit_error` of those behind log_p, up to what is common to a row. `key_gram` holds inner products between heads of
    the logits' slopes in x_j, with one column where j does not matter, each slope known up to `key_error` (None where
    queries or keys are normalised: there slopes are products of lengths);
    `query_block` bounds the norm of d f_i / d x_i through the queries: sum_h |Cov_i(u, y)|.
    """

    rows: slice
    log_p: Float[Tensor, "*batch heads rows keys"]
    logit_error: Float[Tensor, "*batch heads"]
    seen: Bool[Tensor, "*batch 1 rows keys"]
    value_distance: Float[Tensor, "*batch heads rows keys"]
    value_deviation: Float[Tensor, "*batch heads rows"]
    slope_distance: Float[Tensor, "*batch heads rows keys"]
    slope_deviation: Float[Tensor, "*batch heads rows"]
    query_block: Float[Tensor, "*batch rows"]
    key_slope: Float[Tensor, "*batch heads rows keys"]
    key_gram: Float[Tensor, "*batch rows columns heads heads"] | None
    key_error: Float[Tensor, "*batch heads"]


def row_blocks(
    layer: AttentionLayer,
    measure: TokenMeasure,
    *,
    bent: Bent | None = None,
    unit: float = UNIT,
    first: bool = False,
) -> Iterator[RowBlock]:
    """Blocks of rows, small enough that (rows, atoms, head width) differences fit into PAIR_ELEMENTS numbers.

    A normalised layer has to come with what bends it. Copies of a token attend alike and are attended to alike: what is
    known of the token is written down as often as there are copies, or with `first` for the first of them alone.
    """
    if bent is None:
        tokens, copies = measure.merged()
        error = rounding_at(layer, measure, unit=unit)
        for block in _token_rows(layer, tokens, error, None):
            yield block if copies == 1 else _copied(block, copies, layer.sinks is not None, first=first)
    else:
        yield from _token_rows(layer, measure, rounding_at(layer, measure, unit=unit), bent)


@dataclass(frozen=True, eq=False)
class KnownRows:
    """The rows of a batch of tokens, kept for all who ask about these tokens or about the same written as copies.

    Rounding is allowed for as in the measure that they were first asked for, which has the most atoms.
    """

    tokens: TokenMeasure
    blocks: tuple[RowBlock, ...]
    sink: bool

    @classmethod
    def at(cls, layer: AttentionLayer, measure: TokenMeasure) -> KnownRows | None:
        """Of the tokens behind a measure; None where they are too many to be kept, or norms bend the logits."""
        tokens, _ = measure.merged()
        if layer.normed or layer.heads * tokens.masses.numel() * tokens.length > KEPT_ELEMENTS:
            return None
        error = rounding_at(layer, measure).or_larger(rounding_at(layer, tokens))
        return cls(tokens, tuple(_token_rows(layer, tokens, error, None)), layer.sinks is not None)

    @property
    def query_norm(self) -> Float[Tensor, "*batch"]:
        """Upper values of max_i |d f_i / d x_i through the queries|, which are those of copies of the tokens too."""
        blocks = torch.cat([block.query_block for block in self.blocks], dim=-1)
        return torch.where(self.tokens.present, blocks, 0.0).amax(-1)

    def of(self, measure: TokenMeasure, *, first: bool = False) -> tuple[RowBlock, ...] | None:
        """The blocks of the tokens, or of copies of them (`first`: as in `row_blocks`); None where these are others."""
        copies, rest = divmod(measure.length, self.tokens.length)
        if rest or not _same(measure, self.tokens.split(copies)):
            return None
        if copies == 1:
            return self.blocks
        return tuple(_copied(block, copies, self.sink, first=first) for block in self.blocks)


def _same(first: TokenMeasure, second: TokenMeasure) -> bool:
    """Whether all atoms are equal, to the last digit."""
    pairs = ((first.points, second.points), (first.masses, second.masses), (first.positions, second.positions))
    return all(one.shape == other.shape and torch.equal(one, other) for one, other in pairs)


def sample_block(block: RowBlock, index: int) -> RowBlock:
    """A block of a batch, of one of its samples: still a batch, of one."""
    cut: dict[str, Any] = {
        each.name: found[index : index + 1]
        for each in fields(block)
        if isinstance(found := getattr(block, each.name), Tensor)
    }
    return replace(block, **cut)


def _copied(block: RowBlock, copies: int, sink: bool, *, first: bool) -> RowBlock:
    """A block of rows of tokens as that of their copies: each draws its part of what the token draws.

    With `first` the rows of the first copies alone, so every so many-th row: those of the others differ by the order of
    the copies.
    """
    rows = slice(copies * block.rows.start, copies * block.rows.stop, copies if first else None)

    def alike(field: Tensor, axis: int) -> Tensor:
        return field if first else field.repeat_interleave(copies, dim=axis)

    def keys(field: Tensor, axis: int = -1) -> Tensor:
        atoms = field.shape[axis] - int(sink)
        last = field.narrow(axis, atoms, int(sink))
        return torch.cat((field.narrow(axis, 0, atoms).repeat_interleave(copies, dim=axis), last), dim=axis)

    def both(field: Tensor) -> Tensor:
        return keys(alike(field, -2))

    part = torch.full_like(block.log_p[..., :1, :], math.log(copies))
    if sink:
        part[..., -1] = 0.0
    gram = block.key_gram
    if gram is not None:
        gram = alike(gram, -4)
        gram = gram if gram.shape[-3] == 1 else keys(gram, -3)
    return RowBlock(
        rows=rows,
        log_p=both(block.log_p - part),
        logit_error=block.logit_error,
        seen=both(block.seen),
        value_distance=both(block.value_distance),
        value_deviation=alike(block.value_deviation, -1),
        slope_distance=both(block.slope_distance),
        slope_deviation=alike(block.slope_deviation, -1),
        query_block=alike(block.query_block, -1),
        key_slope=both(block.key_slope),
        key_gram=gram,
        key_error=block.key_error,
    )


def _token_rows(layer: AttentionLayer, measure: TokenMeasure, error: Rounding, bent: Bent | None) -> Iterator[RowBlock]:
    """The blocks of a measure whose atoms are looked at one by one; `error` is what rounding may have done."""
    parts = project(layer, measure)
    output_factor = torch.linalg.qr(layer.output, mode="r").R
    query_factor = torch.linalg.qr(layer.query.transpose(-1, -2), mode="r").R * layer.scale
    values = _with_sink(layer, parts.v) @ output_factor.transpose(-1, -2)
    per_row = values.numel() // measure.length * measure.length
    size = max(1, PAIR_ELEMENTS // max(1, per_row))
    for start in range(0, measure.length, size):
        rows = slice(start, min(start + size, measure.length))
        seen = visible(layer.mask, measure.positions, measure.masses, rows).unsqueeze(-3)
        seen = seen if layer.sinks is None else functional.pad(seen, (0, 1), value=True)
        log_p = all_logits(layer, measure, parts, rows).log_softmax(-1)
        log_p, logit_error = known_attention(log_p, error.logit, seen)
        p = torch.where(seen, log_p.exp(), torch.zeros_like(log_p))
        slopes = (
            _LogitSlopes.straight(layer, measure, parts, query_factor, rows)
            if bent is None
            else _LogitSlopes.bent(layer, measure, parts, bent, rows)
        )
        together = joint_spread(p, values.unsqueeze(-3), slopes.points)
        together = together if slopes.stretch is None else together.stretched(slopes.stretch)
        spread_values = together.first.known_up_to(error.value)
        spread_slopes = together.second.known_up_to(error.query_slope)
        key_slope = slopes.key_slope + error.key_slope[..., None, None]
        key_slope = key_slope[..., : measure.length].expand(*log_p.shape[:-1], measure.length)
        yield RowBlock(
            rows=rows,
            log_p=log_p,
            logit_error=logit_error,
            seen=seen,
            value_distance=spread_values.distance,
            value_deviation=spread_values.deviation,
            slope_distance=spread_slopes.distance,
            slope_deviation=spread_slopes.deviation,
            query_block=_query_block(spread_values, spread_slopes, together.covariance, error),
            key_slope=key_slope if layer.sinks is None else functional.pad(key_slope, (0, 1)),
            key_gram=slopes.key_gram,
            key_error=error.key_slope,
        )


@dataclass(frozen=True, eq=False)
class _LogitSlopes:
    """Of the logits of some rows: `points` are as far apart as their slopes in x_i, up to a `stretch` of each row;
    `key_slope` the lengths of those in x_j, `key_gram` their products between heads.
    """

    points: Float[Tensor, "*batch heads _ n k"]
    stretch: Float[Tensor, "*batch heads rows"] | None
    key_slope: Float[Tensor, "*batch heads rows #keys"]
    key_gram: Float[Tensor, "*batch rows columns heads heads"] | None

    @classmethod
    def straight(
        cls, layer: AttentionLayer, measure: TokenMeasure, parts: Projections, factor: Tensor, rows: slice
    ) -> _LogitSlopes:
        """Where logits are bilinear; `factor` is that of the queries, times the scale."""
        points = _query_slopes(layer, measure, parts.k, factor, rows)
        gram = _key_grams(layer, measure, parts.q[..., rows, :])
        return cls(points, None, gram.diagonal(dim1=-1, dim2=-2).sqrt().movedim(-1, -3), gram)

    @classmethod
    def bent(
        cls, layer: AttentionLayer, measure: TokenMeasure, parts: Projections, bent: Bent, rows: slice
    ) -> _LogitSlopes:
        """Where queries or keys are normalised: products of lengths."""
        query, _, key, _ = bent.steepness(torch.zeros_like(measure.masses))
        key_slope = bent.scale * bent.query.made[..., rows, None] * key[..., None, :]
        points = _still_sink(layer, parts.k).unsqueeze(-3)
        return cls(points, bent.scale * query[..., rows], key_slope, None)


def known_attention(
    log_p: Float[Tensor, "*batch heads rows n"], error: Float[Tensor, "*batch heads"], seen: Tensor
) -> tuple[Tensor, Tensor]:
    """log P and by how much it may be off; equal weights, off by anything, where logits err too much to tell."""
    unknown = ~(error <= KNOWN_LOGITS)
    equal = torch.where(seen, -seen.sum(-1, keepdim=True).clamp_min(1).to(log_p.dtype).log(), -torch.inf)
    log_p = torch.where(unknown[..., None, None], equal.expand(log_p.shape), log_p)
    return log_p, torch.where(unknown, torch.where(error.isnan(), error, ANY_LOGIT), error)


@dataclass(frozen=True, eq=False)
class Spread:
    """How points spread under rows of attention: upper values of their distances from the mean under the weights as
    computed, and of the largest standard deviation in any direction.
    """

    distance: Float[Tensor, "*batch rows n"]
    deviation: Float[Tensor, "*batch rows"]

    def known_up_to(self, error: Float[Tensor, "*batch"]) -> Spread:
        """The same of points each known up to `error`: a mean errs as much as they do, a deviation no more."""
        return Spread(self.distance + 2 * error[..., None, None], self.deviation + error[..., None])


@dataclass(frozen=True, eq=False)
class JointSpread:
    """The spread of two kinds of points under the same rows, and an upper value of the norm of their covariance."""

    first: Spread
    second: Spread
    covariance: Float[Tensor, "*batch rows"]

    def stretched(self, factor: Float[Tensor, "*batch rows"]) -> JointSpread:
        """With points of the second kind that are at most `factor` times as far apart."""
        second = Spread(self.second.distance * factor[..., None], self.second.deviation * factor)
        return JointSpread(self.first, second, self.covariance * factor)


def spread(p: Float[Tensor, "*batch rows n"], points: Float[Tensor, "*batch _ n k"], error: Tensor) -> Spread:
    """The spread of points each known up to `error`, which has one entry for every entry of the batch."""
    some = [_moments(p, points, rows) for rows in _few_rows(p, points)]
    return _spread_of([moments for moments, _ in some]).known_up_to(error)


def joint_spread(
    p: Float[Tensor, "*batch rows n"], first: Float[Tensor, "*batch _ n k"], second: Float[Tensor, "*batch _ n l"]
) -> JointSpread:
    """The spread of two kinds of points, a few rows at a time, so that their differences stay in the processor's cache.

    Points are given for every row, or once for all rows.
    """
    ones, others, products = [], [], []
    for rows in _few_rows(p, first):
        these, weighted = _moments(p, first, rows)
        those, beside = _moments(p, second, rows)
        ones.append(these)
        others.append(those)
        products.append(weighted.mT @ beside)
    one, other = _spread_of(ones), _spread_of(others)
    units = UNIT * (p.shape[-1] + 10) * max(first.shape[-1], second.shape[-1])
    covariance = norm_upper(torch.cat(products, dim=-3), nearly=True) + units * one.deviation * other.deviation
    return JointSpread(one, other, covariance)


@dataclass(frozen=True, eq=False)
class _Moments:
    """Of points under rows of attention: distances from the mean, the trace and a Gram matrix of their covariance."""

    distance: Float[Tensor, "*batch rows n"]
    trace: Float[Tensor, "*batch rows"]
    gram: Float[Tensor, "*batch rows m m"]


def _few_rows(p: Float[Tensor, "*batch rows n"], points: Float[Tensor, "*batch _ n k"]) -> Iterator[slice]:
    size = max(1, CACHED_ELEMENTS // max(1, p[..., 0, :].numel() * points.shape[-1]))
    return (slice(start, start + size) for start in range(0, p.shape[-2], size))


def _moments(p: Tensor, points: Tensor, rows: slice) -> tuple[_Moments, Float[Tensor, "*batch rows n k"]]:
    """Of some rows; and sqrt(p) times the differences, whose products are covariances."""
    p, shared = p[..., rows, :], points.shape[-3] == 1  # the same for every row, so that one product finds all means
    points = points if shared else points[..., rows, :, :]
    mean = (p @ points.squeeze(-3)).unsqueeze(-2) if shared else (p[..., None] * points).sum(-2, keepdim=True)
    difference = points - mean
    distance = torch.linalg.vector_norm(difference, dim=-1)
    weighted = difference.mul_(p.sqrt()[..., None])
    trace = torch.linalg.vector_norm(weighted, dim=(-2, -1)) ** 2
    gram = weighted @ weighted.mT if weighted.shape[-2] < weighted.shape[-1] else weighted.mT @ weighted
    units = UNIT * (max(p.shape[-1], points.shape[-1]) + 10)
    return _Moments(distance, units * trace, gram), weighted


def _spread_of(some: Sequence[_Moments]) -> Spread:
    """Products of n terms, or of k where there are fewer atoms than coordinates, add as many units of the trace."""
    gram, trace = torch.cat([each.gram for each in some], dim=-3), torch.cat([each.trace for each in some], dim=-1)
    distance = torch.cat([each.distance for each in some], dim=-2)
    return Spread(distance, (covariance_norm_upper(gram) + trace).sqrt())


def _query_block(
    values: Spread, slopes: Spread, covariance: Float[Tensor, "*batch heads rows"], error: Rounding
) -> Float[Tensor, "*batch rows"]:
    """sum_h |Cov_i(u, y)| at most. Weights that err by a part g change a covariance by (g + g^2) sd(u) sd(y)."""
    weight = error.weight[..., None]
    known = weight <= math.expm1(2 * KNOWN_LOGITS)
    both = values.deviation * slopes.deviation * (weight + weight**2)
    points = error.value[..., None] * slopes.deviation + error.query_slope[..., None] * values.deviation
    return torch.where(known, covariance + both + points, torch.inf).sum(-2)


def _query_slopes(
    layer: AttentionLayer, measure: TokenMeasure, keys: Tensor, factor: Tensor, rows: slice
) -> Float[Tensor, "*batch heads _ n k"]:
    """y_ij = ds_ij/dx_i up to an isometry: the same for every row without rotation."""
    if layer.rotary is None:
        return _still_sink(layer, keys @ factor.transpose(-1, -2)).unsqueeze(-3)
    columns = []
    for row in range(rows.start, rows.stop):
        position = measure.positions[..., row : row + 1].expand(measure.positions.shape)
        columns.append(_still_sink(layer, layer.rotary.rotate_back(keys, position) @ factor.transpose(-1, -2)))
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
    if layer.sinks is not None:
        columns.append(torch.zeros_like(columns[0]))
    return torch.stack(columns, dim=-3)


def _with_sink(
    layer: AttentionLayer, values: Float[Tensor, "*batch heads n k"]
) -> Float[Tensor, "*batch heads keys k"]:
    """The values of all that is attended to."""
    if layer.sinks is None:
        return values
    return torch.cat((values, layer.sinks.value[:, None, :].expand(*values.shape[:-2], 1, -1)), dim=-2)


def _still_sink(layer: AttentionLayer, slopes: Float[Tensor, "*batch n k"]) -> Float[Tensor, "*batch keys k"]:
    """The slopes of the logits of all that is attended to: a sink's is zero."""
    return slopes if layer.sinks is None else functional.pad(slopes, (0, 0, 0, 1))

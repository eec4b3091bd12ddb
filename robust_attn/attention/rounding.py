"""What rounding may do to an attention layer: absolute errors of everything that a bound or an observation is made of.

An inner product of length l errs by at most l units times the product of the norms, however much of it cancels: so each
error is stated in terms of the sizes of what went in, never of what came out. A logit that errs by e changes an
attention weight by a factor of at most exp(2 e). Each count is proved in docs/proofs/rounding.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from robust_attn.attention.head_norm import CURVATURE, HeadNorm
from robust_attn.attention.jacobian import project
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure

UNIT = torch.finfo(torch.float64).eps
"""Twice the unit roundoff of float64, in which every bound is computed."""
NEGLIGIBLE_SIZE, LARGEST_SIZE = 1e-30, 1e30
"""Between the two weights, tokens and biases may be: squares of products of four neither vanish nor overflow."""
NEGLIGIBLE_CHANGE, NEGLIGIBLE_MASS = 1e-130, 1e-40
"""The square of the one times the other is still a number."""


@dataclass(frozen=True, eq=False)
class Sizes:
    """Norms of what a head computes with, per sample and head: Frobenius norms of weights, and of what they make.

    `logit` is the largest |s_ij| that the norms allow, `queries`, `keys`, `values` the largest |q_i|, |k_j|, |v_j|.
    Where queries or keys are normalised, `query` and `key` are those of the derivative, and of what errs in it
    (docs/proofs/rounding.md#norms-of-queries-and-keys).
    """

    query: Float[Tensor, "*some heads"]
    key: Float[Tensor, "*other heads"]
    value: Float[Tensor, "heads"]
    output: Float[Tensor, "heads"]
    scale: float
    queries: Float[Tensor, "*batch heads"]
    keys: Float[Tensor, "*batch heads"]
    values: Float[Tensor, "*batch heads"]

    @classmethod
    def of(cls, layer: AttentionLayer, measure: TokenMeasure) -> Sizes:
        """The sizes of a layer at a measure."""
        radius, groups = measure.radius[..., None], layer.head_groups
        query, key, value = (
            weights.norm(dim=(-2, -1)) for weights in (layer.query, layer.key[groups], layer.value[groups])
        )
        queries = query * radius + layer.query_bias.norm(dim=-1)
        keys = key * radius + layer.key_bias[groups].norm(dim=-1)
        if layer.normed:
            parts = project(layer, measure)
            query, queries = _normed(layer.query_norm, parts.raw_q, measure, query, queries)
            key, keys = _normed(layer.key_norm, parts.raw_k, measure, key, keys)
        return cls(
            query=query,
            key=key,
            value=value,
            output=layer.output.norm(dim=(-2, -1)),
            scale=layer.logit_scale,
            queries=queries,
            keys=keys,
            values=_values(layer, value * radius),
        )

    @property
    def logit(self) -> Float[Tensor, "*batch heads"]:
        """What no logit exceeds."""
        return self.scale * self.queries * self.keys


def _normed(
    norm: HeadNorm | None,
    raw: Float[Tensor, "*batch blocks n width"] | None,
    measure: TokenMeasure,
    weight: Float[Tensor, "heads"],
    largest: Float[Tensor, "*batch heads"],
) -> tuple[Tensor, Tensor]:
    """The sizes of one side with its norm: of the derivative and its own sensitivity, and of what comes out.

    From those of the projection, |W| and the largest |z|; where the norm goes across heads all of them count.
    """
    if norm is None or raw is None:
        return weight, largest
    if norm.across:
        weight, largest = (field.norm(dim=-1, keepdim=True).expand(field.shape) for field in (weight, largest))
    unit = torch.finfo(raw.dtype).eps * (measure.width + 2 * norm.coordinates + 20)
    length = norm.squares(raw)[..., 0].sqrt()
    length = torch.where(measure.present[..., None, :], length, torch.inf).amin(-1)
    repeats = (weight.shape[-1] // norm.gain.shape[0]) if not norm.across else weight.shape[-1]
    length = length.repeat_interleave(repeats, dim=-1)
    gain, shift = (
        field.repeat_interleave(weight.shape[-1] // norm.gain.shape[0])
        for field in (norm.largest_gain, norm.shift.norm(dim=-1))
    )
    root = norm.root((length - unit * largest).clamp_min(0.0).square())
    ratio = largest / (math.sqrt(norm.coordinates) * root)
    return gain * weight / root * (1 + CURVATURE * ratio), gain * largest / root + shift


@dataclass(frozen=True, eq=False)
class Rounding:
    """Upper values of the errors of what float64 finds at a measure, per sample and head.

    `logit`: of log P_ij; `value`: of a value after the output projection, as a vector; `query_slope`: of a logit's
    slope in x_i; `key_slope`: of one in x_j. QR factors may stand for the weights, and means of points for points.
    """

    logit: Float[Tensor, "*batch heads"]
    value: Float[Tensor, "*batch heads"]
    query_slope: Float[Tensor, "*batch heads"]
    key_slope: Float[Tensor, "*batch heads"]

    @property
    def weight(self) -> Float[Tensor, "*batch heads"]:
        """By what part an attention weight may differ: e^{2 e} - 1."""
        return torch.expm1(2 * self.logit)

    def or_larger(self, other: Rounding) -> Rounding:
        """What allows for both."""
        return Rounding(
            torch.maximum(self.logit, other.logit),
            torch.maximum(self.value, other.value),
            torch.maximum(self.query_slope, other.query_slope),
            torch.maximum(self.key_slope, other.key_slope),
        )


def rounding_at(layer: AttentionLayer, measure: TokenMeasure, *, unit: float = UNIT) -> Rounding:
    """The errors of a float64 layer at a measure; with `unit` zero none, as if arithmetic were exact.

    Householder's QR of an m x k matrix errs by a multiple of m k units (Higham 2002, theorem 19.4), which is the
    largest of the counts.
    """
    sizes = Sizes.of(layer, measure)
    n, d, k = measure.length, layer.width, layer.query.shape[1]
    values, out = layer.value.shape[1], layer.out_width
    masses = torch.where(measure.present, measure.masses, 1.0).log().abs().amax(-1)[..., None]
    softmax = unit * (n + 10 + 4 * masses)
    return Rounding(
        logit=logit_error(layer, measure, unit=unit) + softmax,
        value=unit * (n + d + (out + 2) * values + 20) * sizes.output * sizes.values,
        query_slope=unit * (n + (d + 2) * (k + 2) + 20 + _norm_terms(layer)) * sizes.scale * sizes.query * sizes.keys,
        key_slope=unit * (2 * d + k + 20 + _norm_terms(layer)) * sizes.scale * sizes.key * sizes.queries,
    )


def logit_error(
    layer: AttentionLayer, measure: TokenMeasure, *, unit: float | None = None
) -> Float[Tensor, "*batch heads"]:
    """How far rounding in the layer's own precision may take any logit of a head from the exact one."""
    unit = torch.finfo(layer.dtype).eps if unit is None else unit
    inner = (2 * layer.width + 2 * layer.query.shape[1] + 10 + _norm_terms(layer)) * Sizes.of(layer, measure).logit
    return unit * (inner + 4 * _added_size(layer, measure))


def _norm_terms(layer: AttentionLayer) -> int:
    """Roundings that norms of queries and keys add, in units of what comes out of them."""
    return sum(2 * norm.coordinates + 20 for norm in (layer.query_norm, layer.key_norm) if norm is not None)


def _added_size(layer: AttentionLayer, measure: TokenMeasure) -> Float[Tensor, "heads"]:
    """The largest size of what is added to the logits of a head, and of the logit of its sink."""
    added = torch.zeros_like(layer.query[:, 0, 0])
    if layer.position_bias is not None:
        added = added + layer.position_bias.size
    if layer.sinks is not None:
        added = added + layer.sinks.logit.abs() + math.log(measure.length)
    return added


def _values(layer: AttentionLayer, largest: Float[Tensor, "*batch heads"]) -> Float[Tensor, "*batch heads"]:
    """What no value exceeds, of a token or of a sink."""
    return largest if layer.sinks is None else torch.maximum(largest, layer.sinks.value.norm(dim=-1))


def evaluation_error(layer: AttentionLayer, measure: TokenMeasure) -> Float[Tensor, "*batch"]:
    """How far rounding may take any one row of layer(measure) from the exact value.

    A logit error e changes attention weights by e^{2e} - 1 in total, and never by more than 2: so a row by at most 4e
    times the largest value; sums over tokens, heads and the output projection add their lengths.
    """
    unit, sizes = torch.finfo(layer.dtype).eps, Sizes.of(layer, measure)
    widest = max(layer.width, layer.stacked_output.shape[0])
    lengths = measure.length + 3 * math.log(measure.length) + widest + 2 * layer.value.shape[1] + layer.heads + 20
    rows = (sizes.output * sizes.values * (4 * logit_error(layer, measure) + unit * lengths)).sum(-1)
    return rows + 2 * unit * layer.offset.norm()


def within_range(
    layer: AttentionLayer, measure: TokenMeasure, *distances: float | Float[Tensor, "*batch"]
) -> Bool[Tensor, "*batch"]:
    """Whether squares and products of all sizes are numbers that floats hold; if not, nothing can be said.

    A head, all tokens, or a distance that they may move may be exactly zero; else none may be so small that the output
    changes which it makes have no square, nor so large that slopes which have none matter there.
    """
    weights = (layer.query, layer.key, layer.value, layer.output)
    tops = [each.abs().amax((-2, -1)) for each in weights]
    lightest = torch.where(measure.present, measure.masses, 1.0).amin(-1)
    biases = torch.cat([layer.query_bias.flatten(), layer.key_bias.flatten(), layer.offset, *_extras(layer)])
    points = torch.where(measure.present[..., None], measure.points, 0.0).abs().amax((-2, -1))
    known = all(bool(_moderate(top).all()) for top in tops) and bool((biases.abs() <= LARGEST_SIZE).all())
    reached = _moderate(points) & (lightest >= NEGLIGIBLE_MASS) & known & (abs(layer.scale) <= LARGEST_SIZE)
    value = tops[3] * tops[2][layer.head_groups]
    smallest = torch.where(value > 0, value, torch.inf).amin()
    for distance in (points, *distances):
        far = torch.as_tensor(distance, dtype=torch.float64, device=layer.device)
        reached = reached & ((far == 0) | ((smallest * far >= NEGLIGIBLE_CHANGE) & ~(far > LARGEST_SIZE)))
    return reached


def _extras(layer: AttentionLayer) -> list[Tensor]:
    """Every number of the layer's bias by positions and of its sinks."""
    found = [] if layer.position_bias is None else [layer.position_bias.table.flatten()]
    norms = [norm for norm in (layer.query_norm, layer.key_norm) if norm is not None]
    found += [field.flatten() for norm in norms for field in (norm.gain, norm.shift)]
    return found if layer.sinks is None else [*found, layer.sinks.logit, layer.sinks.value.flatten()]


def _moderate(size: Tensor) -> Tensor:
    return (size == 0) | ((size >= NEGLIGIBLE_SIZE) & (size <= LARGEST_SIZE))

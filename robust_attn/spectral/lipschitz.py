"""The local Lipschitz constant of an attention layer at a measure, and of the same measure with its tokens split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.jacobian import (
    LayerJacobian,
    merge_heads,
    project_queries,
    pull_queries,
    split_heads,
)
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure, expect_measure
from robust_attn.attention.operator import DerivedJacobian, Jacobian, ScaledJacobian
from robust_attn.attention.rounding import within_range
from robust_attn.spectral.derivative_error import derivative_error
from robust_attn.spectral.lanczos import LipschitzEstimate, fresh_seed, largest_singular_value, start_generator


@dataclass(frozen=True, eq=False)
class QueryPart(DerivedJacobian):
    """The part of a layer's derivative that acts through a token's own query: blockdiag_i sum_h W_O Cov_i(v, k) W_Q.

    It is all that zero-mean motion of the copies of a token can use to first order (docs/proofs/splitting.md#copies).
    """

    inner: LayerJacobian

    def jvp(self, tangent: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n out"]:
        """The derivative with keys and values held still."""
        inner = self.inner
        parts = inner.projections
        dq = project_queries(inner.layer, inner.measure, tangent, parts) * inner.layer.scale
        pieces = []
        for rows, attention in inner.attention_blocks():
            slope = (dq[..., rows, :] @ parts.k.transpose(-1, -2)) * attention
            pieces.append(slope @ parts.v - slope.sum(-1, keepdim=True) * inner.mean[..., rows, :])
        return merge_heads(inner.layer, torch.cat(pieces, dim=-2))

    def vjp(self, cotangent: Float[Tensor, "*batch n out"]) -> Float[Tensor, "*batch n d"]:
        """The gradient that arrives through the queries alone."""
        inner = self.inner
        parts = inner.projections
        pulled = split_heads(inner.layer, cotangent)
        centre = (pulled * inner.mean).sum(-1, keepdim=True)
        pieces = []
        for rows, attention in inner.attention_blocks():
            slope = (pulled[..., rows, :] @ parts.v.transpose(-1, -2) - centre[..., rows, :]) * attention
            pieces.append(slope @ parts.k)
        return pull_queries(inner.layer, inner.measure, torch.cat(pieces, dim=-2) * inner.layer.scale, parts)


def local_lipschitz(
    layer: AttentionLayer,
    measure: TokenMeasure,
    *,
    weights: Float[Tensor, "*batch n"] | None = None,
    seed: int | None = None,
    steps: int = 64,
    failure_probability: float = 1e-9,
    tolerance: float | None = None,
) -> LipschitzEstimate:
    """|D_X f| in the norm (sum_i w_i |.|^2)^{1/2}, by default with the masses as weights (L2 of the measure).

    In float64 whatever the precision of the weights, and with what rounding may have done to the derivative on both
    sides. `upper` fails with `failure_probability` over the start, which is drawn anew unless `seed` is given; a seed
    that somebody knew when the weights were chosen voids it. A `tolerance` on the value's relative error ends the run
    early and makes `upper` larger (`largest_singular_value`).
    """
    return _largest(_at(layer, measure, weights), (), seed, Iteration(steps, failure_probability, tolerance))


def head_lipschitz(
    layer: AttentionLayer,
    measure: TokenMeasure,
    *,
    weights: Float[Tensor, "*batch n"] | None = None,
    seed: int | None = None,
    steps: int = 64,
    failure_probability: float = 1e-9,
    tolerance: float | None = None,
) -> LipschitzEstimate:
    """The same constant of every head alone, with its columns of the output projection; heads are the first axis.

    The heads share the failure probability: all upper values hold together except with that probability.
    """
    seed = fresh_seed() if seed is None else seed
    each = [
        local_lipschitz(
            layer.head(head),
            measure,
            weights=weights,
            seed=seed,
            steps=steps,
            failure_probability=failure_probability / layer.heads,
            tolerance=tolerance,
        )
        for head in range(layer.heads)
    ]
    return LipschitzEstimate(
        lower=torch.stack([estimate.lower for estimate in each]),
        upper=torch.stack([estimate.upper for estimate in each]),
        failure_probability=sum(estimate.failure_probability for estimate in each),
        steps=max(estimate.steps for estimate in each),
        residual=torch.stack([estimate.residual for estimate in each]),
        error=torch.stack([estimate.error for estimate in each]),
        direction=torch.stack([estimate.direction for estimate in each]),
        seed=seed,
    )


def split_lipschitz(
    layer: AttentionLayer,
    measure: TokenMeasure,
    *,
    weights: Float[Tensor, "*batch n"] | None = None,
    seed: int | None = None,
    steps: int = 64,
    failure_probability: float = 1e-9,
    tolerance: float | None = None,
    queries: Float[Tensor, "*batch"] | None = None,
) -> LipschitzEstimate:
    """The same constant once every token is split into two or more copies: max(|D_X f|, max_i |query part of i|).

    Exact for two copies and more (docs/proofs/splitting.md#copies). The `direction` is that of the unsplit measure.
    Each of the two estimates gets half of the failure probability. `queries` are upper values of the second maximum, if
    somebody has them: where the first exceeds them nothing more is computed, and its half is all that may fail.
    """
    at = _at(layer, measure, weights)
    apart = ScaledJacobian(QueryPart(at.jacobian), at.jacobian.measure.masses)
    return _largest(at, ((apart, queries),), seed, Iteration(steps, failure_probability, tolerance))


@dataclass(frozen=True)
class Iteration:
    """How long a Lanczos run may be, what it may fail with, and when it may end early."""

    steps: int
    failure_probability: float
    tolerance: float | None


@dataclass(frozen=True, eq=False)
class _At:
    """A layer's derivative at a measure, in float64, and the weights of the norm."""

    jacobian: LayerJacobian
    weights: Float[Tensor, "*batch n"]


def _at(layer: AttentionLayer, measure: TokenMeasure, weights: Tensor | None) -> _At:
    expect_measure(measure)
    jacobian = layer.to(torch.float64).linearize(measure.to(torch.float64))
    return _At(jacobian, jacobian.measure.masses if weights is None else weights.double())


def _largest(
    at: _At, others: Sequence[tuple[Jacobian, Tensor | None]], seed: int | None, run: Iteration
) -> LipschitzEstimate:
    """The largest of the derivative's norm and those of the other maps, each with its part of the probability.

    Of another map no more is asked than that it is smaller, where it is: nothing if its upper value says so.
    """
    seed = fresh_seed() if seed is None else seed
    generator, operators = start_generator(seed), ((ScaledJacobian(at.jacobian, at.weights), None), *others)
    each: list[LipschitzEstimate] = []
    for operator, known in operators:
        if each and known is not None and bool((known <= each[0].upper).all()):
            continue
        found = largest_singular_value(
            operator,
            generator=generator,
            steps=run.steps,
            failure_probability=run.failure_probability / len(operators),
            tolerance=run.tolerance,
            below=each[0].lower if each else None,
        )
        each.append(found)
    steps = max(estimate.steps for estimate in each)
    known = within_range(at.jacobian.layer, at.jacobian.measure)
    off = torch.where(known, derivative_error(at.jacobian, at.weights, steps=steps), torch.inf)
    counts = [(estimate, ~(estimate.upper <= each[0].lower)) for estimate in each]
    return replace(
        each[0],
        lower=(_maximum([estimate.lower for estimate in each]) - off).clamp_min(0.0),
        upper=_maximum([estimate.upper for estimate in each]) + off,
        failure_probability=sum(estimate.failure_probability for estimate in each),
        steps=steps,
        residual=_maximum([torch.where(matters, estimate.residual, 0.0) for estimate, matters in counts]),
        error=_maximum([torch.where(matters, estimate.error, 0.0) for estimate, matters in counts]),
        seed=seed,
        rounding=off,
    )


def _maximum(values: Sequence[Tensor]) -> Tensor:
    """The largest, entry by entry; not a number where one is not."""
    return torch.stack(tuple(values)).amax(0)

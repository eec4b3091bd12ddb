"""The local Lipschitz constant of an attention layer at a measure, and of the same measure with its tokens split."""

from __future__ import annotations

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
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.operator import DerivedJacobian, ScaledJacobian
from robust_attn.attention.rounding import attention_growth
from robust_attn.spectral.lanczos import LipschitzEstimate, largest_singular_value


@dataclass(frozen=True, eq=False)
class QueryPart(DerivedJacobian):
    """The part of a layer's derivative that acts through a token's own query: blockdiag_i sum_h W_O Cov_i(v, k) W_Q.

    It is all that zero-mean motion of the copies of a token can use to first order (theory sheet, section 4.1).
    """

    inner: LayerJacobian

    def jvp(self, tangent: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n out"]:
        """The derivative with keys and values held still."""
        inner = self.inner
        parts = inner.projections
        dq = project_queries(inner.layer, inner.measure, tangent) * inner.layer.scale
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
        return pull_queries(inner.layer, inner.measure, torch.cat(pieces, dim=-2) * inner.layer.scale)


def local_lipschitz(
    layer: AttentionLayer,
    measure: TokenMeasure,
    *,
    weights: Float[Tensor, "*batch n"] | None = None,
    generator: torch.Generator | None = None,
    steps: int = 64,
    failure_probability: float = 1e-9,
    tolerance: float | None = None,
) -> LipschitzEstimate:
    """|D_X f| in the norm (sum_i w_i |.|^2)^{1/2}, by default with the masses as weights (L2 of the measure).

    A `tolerance` on the value's relative error ends the run early and makes `upper` larger (`largest_singular_value`).
    """
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    operator = ScaledJacobian(layer.linearize(measure), measure.masses if weights is None else weights)
    estimate = largest_singular_value(
        operator, generator=generator, steps=steps, failure_probability=failure_probability, tolerance=tolerance
    )
    return _as_far_as_known(estimate, layer, measure)


def _as_far_as_known(estimate: LipschitzEstimate, layer: AttentionLayer, measure: TokenMeasure) -> LipschitzEstimate:
    """Zero to infinity where rounding of the logits leaves the attention weights unknown in float64."""
    if layer.dtype is not torch.float64:
        return estimate
    unknown = attention_growth(layer, measure).isinf()
    return replace(
        estimate,
        lower=torch.where(unknown, 0.0, estimate.lower),
        upper=torch.where(unknown, torch.inf, estimate.upper),
    )


def head_lipschitz(
    layer: AttentionLayer,
    measure: TokenMeasure,
    *,
    weights: Float[Tensor, "*batch n"] | None = None,
    generator: torch.Generator | None = None,
    steps: int = 64,
    failure_probability: float = 1e-9,
    tolerance: float | None = None,
) -> LipschitzEstimate:
    """The same constant of every head alone, with its columns of the output projection; heads are the first axis.

    The heads share the failure probability: all upper values hold together except with that probability.
    """
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    each = [
        local_lipschitz(
            layer.head(head),
            measure,
            weights=weights,
            generator=generator,
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
    )


def split_lipschitz(
    layer: AttentionLayer,
    measure: TokenMeasure,
    *,
    weights: Float[Tensor, "*batch n"] | None = None,
    generator: torch.Generator | None = None,
    steps: int = 64,
    failure_probability: float = 1e-9,
    tolerance: float | None = None,
) -> LipschitzEstimate:
    """The same constant once every token is split into two or more copies: max(|D_X f|, max_i |query part of i|).

    Exact for any number of copies >= 2 (theory sheet, section 4.1). The `direction` is that of the unsplit measure.
    Each of the two estimates gets half of the failure probability.
    """
    half = failure_probability / 2
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    jacobian = layer.linearize(measure)
    moving = ScaledJacobian(jacobian, measure.masses if weights is None else weights)
    apart = ScaledJacobian(QueryPart(jacobian), measure.masses)
    whole, query = (
        largest_singular_value(
            operator, generator=generator, steps=steps, failure_probability=half, tolerance=tolerance
        )
        for operator in (moving, apart)
    )
    both = replace(
        whole,
        lower=torch.maximum(whole.lower, query.lower),
        upper=torch.maximum(whole.upper, query.upper),
        failure_probability=whole.failure_probability + query.failure_probability,
        steps=max(whole.steps, query.steps),
        residual=torch.maximum(whole.residual, query.residual),
        error=torch.maximum(whole.error, query.error),
    )
    return _as_far_as_known(both, layer, measure)

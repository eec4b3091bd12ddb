"""How a layer's output differs from that at a base, without the cancellation of two outputs that are nearly equal.

    s'_ij - s_ij = scale (<dq_i, k_j + dk_j> + <q_i, dk_j>)
    o'_i - o_i = sum_j P'_ij dv_j + sum_j (P'_ij - P_ij) v_j,    P'_ij - P_ij = P_ij (e^{t_ij} - 1)

with t what a logit moves less what is common to its row. Every term is a product of a displacement, so single precision
finds the difference to six digits however small the displacement is: enough for a search, whose result is measured in
float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.jacobian import (
    KEPT_ELEMENTS,
    LayerJacobian,
    Projections,
    all_logits,
    merge_heads,
    project,
    project_tangent,
)
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import visible
from robust_attn.attention.measure import TokenMeasure

FAR = 1.0
"""Logits that move by more, less what is common to their row: there P' and P are far enough apart to be subtracted."""


@dataclass(frozen=True, eq=False)
class Difference:
    """A layer and a base, in single precision; values are counted from their mean, which drops out of differences."""

    layer: AttentionLayer
    base: TokenMeasure
    parts: Projections
    log_p: Float[Tensor, "*batch heads n n"]
    values: Float[Tensor, "*batch heads n value_width"]
    mean: Float[Tensor, "*batch heads n value_width"]

    @classmethod
    def at(
        cls, layer: AttentionLayer, base: TokenMeasure, *, single: AttentionLayer | None = None
    ) -> Difference | None:
        """None where the formula does not hold or numbers do not fit: sinks, norms of queries, rows that see nobody.

        `single` is the layer in single precision, where somebody has it.
        """
        if layer.normed or layer.sinks is not None:
            return None
        if layer.heads * base.masses.numel() * base.length > KEPT_ELEMENTS:
            return None
        if not bool(visible(layer.mask, base.positions, base.masses).any(-1).all()):
            return None
        parts = project(layer, base)
        values = parts.v - parts.v.mean(-2, keepdim=True)
        log_p = all_logits(layer, base, parts, slice(None)).log_softmax(-1)
        rounded = [part.float() for part in (parts.q, parts.k, parts.v, values, log_p.exp() @ values)]
        if not all(bool(torch.isfinite(part).all()) for part in rounded):
            return None
        measure = TokenMeasure(base.points.float(), base.masses.float(), base.positions)
        single_layer = layer.to(torch.float32) if single is None else single
        return cls(single_layer, measure, Projections(*rounded[:3]), log_p.float(), *rounded[3:])

    def moved(self, displacement: Float[Tensor, "*more n d"]) -> LayerJacobian:
        """The derivative at the displaced base, with the difference of the outputs in place of its `value`."""
        layer, base, parts, displacement = self.layer, self.base, self.parts, displacement.float()
        points = base.points + displacement
        measure = TokenMeasure(points, *(part.expand(points.shape[:-1]) for part in (base.masses, base.positions)))
        by = project_tangent(layer, measure, displacement, parts)
        there = Projections(parts.q + by.q, parts.k + by.k, parts.v + by.v)
        left = torch.cat((by.q, parts.q.expand_as(by.q)), dim=-1) * layer.scale
        logits = left @ torch.cat((there.k, by.k), dim=-1).mT
        raised = self.log_p + logits
        common = raised.logsumexp(-1, keepdim=True)
        after, before, apart = (raised - common).exp(), self.log_p.exp(), logits - common
        shift = torch.where(apart > FAR, after - before, before * torch.expm1(apart.clamp_max(FAR)))
        change = after @ by.v + shift @ self.values - shift.sum(-1, keepdim=True) * self.mean
        return LayerJacobian(layer, measure, there, after @ there.v, merge_heads(layer, change), (after,))

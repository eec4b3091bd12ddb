"""A layer's output when one token alone moves: n rows to look at in place of n^2 pairs.

A row that sees token j with weight P changes by rho (v_j - o_i) + P' dv with rho = P (e^t - 1) / (1 + P (e^t - 1)) and
P' = P e^t / (1 + P (e^t - 1)), t what its logit moves (docs/proofs/local.md#one-token); the token's own row is computed
anew. Every term is a product of the displacement, so nothing cancels.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.jacobian import (
    LayerJacobian,
    Projections,
    merge_heads,
    project_tangent,
    weighted_logits,
)
from robust_attn.attention.measure import TokenMeasure


@dataclass(frozen=True, eq=False)
class MovedToken:
    """One token of one measure, [n, d], at a layer without sinks and without norms of queries and keys."""

    at: LayerJacobian
    token: int
    p: Float[Tensor, "heads n"]
    own: Float[Tensor, "heads n"]

    @classmethod
    def of(cls, at: LayerJacobian, token: int) -> MovedToken:
        """From a forward pass that has been made."""
        layer, measure, parts = at.layer, at.measure, at.projections
        if layer.normed or layer.sinks is not None:
            raise ValueError("one token alone: not known for layers with sinks or with norms of queries or keys")
        own = weighted_logits(layer, measure, parts, slice(token, token + 1))[:, 0]
        others = torch.arange(measure.length, device=own.device) != token
        return cls(at, token, at.log_column(token).exp() * others, own)

    def difference(self, displacement: Float[Tensor, "d"]) -> Float[Tensor, "n out"]:
        """How far every row of the output moves; torch can differentiate it."""
        at, parts, token = self.at, self.at.projections, self.token
        measure, layer = at.measure, at.layer
        alone = TokenMeasure(*(part[token : token + 1] for part in (measure.points, measure.masses, measure.positions)))
        by = project_tangent(layer, alone, displacement[None], Projections(parts.q, parts.k, parts.v))
        raised = torch.expm1(layer.scale * (parts.q @ by.k.mT)[..., 0])
        total = 1 + self.p * raised
        ratio, after = self.p * raised / total, self.p * (1 + raised) / total
        change = ratio[..., None] * (parts.v[:, token : token + 1] - at.mean) + after[..., None] * by.v
        own = torch.zeros(measure.length, 1, dtype=change.dtype, device=change.device)
        own[token] = 1.0
        return merge_heads(layer, change + own * self._own_row(by)[:, None, :])

    def _own_row(self, by: Projections) -> Float[Tensor, "heads value_width"]:
        """The token's own row, whose query, key and value move."""
        parts, token, scale = self.at.projections, self.token, self.at.layer.scale
        logits = self.own + scale * (parts.k @ by.q.mT)[..., 0]
        both = scale * ((parts.q[:, token] + by.q[:, 0]) * by.k[:, 0]).sum(-1)
        here = torch.zeros_like(self.own)
        here[:, token] = 1.0
        weights = (logits + here * both[:, None]).softmax(-1)
        mean = (weights[:, None, :] @ parts.v)[:, 0] + weights[:, token, None] * by.v[:, 0]
        return mean - self.at.mean[:, token]


def strongest_displacement(
    moved: MovedToken, weights: Float[Tensor, "n"], reach: float, *, steps: int = 20
) -> Float[Tensor, "d"]:
    """A displacement of length at most `reach` that makes (sum_i w_i |change_i|^2)^{1/2} large.

    `steps` of power iteration (the gradient at a displacement too small for anything but the first order), as many at
    full length; the best that was seen.
    """
    size = moved.at.measure.width
    start = torch.ones(size, dtype=moved.p.dtype, device=moved.p.device) / size**0.5
    best, most = torch.zeros_like(start), -1.0
    for radius in [1e-5 * reach] * steps + [reach] * steps:
        point = (radius * start).requires_grad_()
        change = (weights[:, None] * moved.difference(point) ** 2).sum()
        (gradient,) = torch.autograd.grad(change, point)
        if radius == reach and float(change.detach()) > most:
            best, most = point.detach(), float(change.detach())
        length = float(gradient.norm())
        if not length > 0:
            break
        start = gradient / length
    return best

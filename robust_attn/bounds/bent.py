"""Logits that are no bilinear form: what norms of queries and keys add on a ball (docs/proofs/local.md#bent-logits).

A normalised query q(x) = N(W x + b) has |Dq| <= |gain| |W| / rho and |D^2 q| <= |gain| |W|^2 2 / (sqrt(3 k) rho^2). On
a ball around the tokens rho is at least what the shortest projection in reach leaves of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from robust_attn.attention.head_norm import CURVATURE, HeadNorm
from robust_attn.attention.jacobian import Projections, project
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.rounding import UNIT, Sizes
from robust_attn.spectral.norms import HeadNorms, Side, sides


@dataclass(frozen=True, eq=False)
class SideAtTokens:
    """Queries or keys at the tokens: an upper value of their lengths, a lower one of those that a norm was given."""

    side: Side
    made: Float[Tensor, "*batch heads n"]
    given: Float[Tensor, "*batch heads n"]

    def steepness(self, reach: Float[Tensor, "*batch 1 n"]) -> tuple[Tensor, Tensor]:
        """|D| and |D^2| at most, of every token wherever it may go."""
        norm = self.side.norm
        weight, gain = self.side.weight[:, None], self.side.gain[:, None]
        if norm is None:
            return weight.expand(self.made.shape), torch.zeros_like(self.made)
        root = norm.root((self.given - weight * reach).clamp_min(0.0).square())
        curvature = CURVATURE * gain * weight**2 / (math.sqrt(norm.coordinates) * root**2)
        return gain * weight / root, curvature


@dataclass(frozen=True, eq=False)
class Bent:
    """A normalised layer at a measure, from which everything on a ball around it follows."""

    query: SideAtTokens
    key: SideAtTokens
    scale: float
    present: Tensor

    @classmethod
    def of(cls, layer: AttentionLayer, measure: TokenMeasure, *, unit: float = UNIT) -> Bent:
        """Lengths with what rounding may have done to them."""
        parts, sizes, (query, key) = project(layer, measure), Sizes.of(layer, measure), sides(layer)
        terms = sum(2 * norm.coordinates for norm in (layer.query_norm, layer.key_norm) if norm is not None)
        count = unit * (2 * layer.width + 2 * layer.query.shape[1] + terms + 30)
        radius = measure.radius[..., None]
        lengths = _lengths(layer, parts, query.weight * radius + query.bias, key.weight * radius + key.bias, count)
        return cls(
            SideAtTokens(query, parts.q.norm(dim=-1) + count * sizes.queries[..., None], lengths[0]),
            SideAtTokens(key, parts.k.norm(dim=-1) + count * sizes.keys[..., None], lengths[1]),
            layer.logit_scale,
            measure.present,
        )

    def steepness(self, reach: Float[Tensor, "*batch n"]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """|Dq|, |D^2 q|, |Dk| and |D^2 k| of every token, zero for padding."""
        room, seen = reach[..., None, :], self.present[..., None, :]
        found = (*self.query.steepness(room), *self.key.steepness(room))
        query, bent_query, key, bent_key = (torch.where(seen, field, 0.0) for field in found)
        return query, bent_query, key, bent_key

    def on(self, reach: Float[Tensor, "*batch n"], rows: slice, *, sink: bool) -> Bend:
        """What bending adds to a block of rows where tokens may move by `reach`."""
        query, bent_query, key, bent_key = self.steepness(reach)
        room = reach[..., None, :]
        longest_query = (self.query.made + query * room)[..., rows]
        longest_key = torch.where(self.present[..., None, :], self.key.made + key * room, 0.0).amax(-1)[..., None]
        own, bent = room[..., rows], bent_query[..., rows]
        per_key = bent_key[..., None, :] * room[..., None, :]
        shift = self.query.made[..., rows, None] * per_key * room[..., None, :] / 2
        columns = (
            shift + (longest_key * bent * own**2)[..., None],
            longest_query[..., None] * per_key,
            longest_query[..., None] * bent_key[..., None, :],
        )
        logit_shift, key_slope, pair = (
            self.scale * (functional.pad(field, (0, 1)) if sink else field) for field in columns
        )
        if sink:
            logit_shift[..., -1] = self.scale * longest_key * bent * own**2
        return Bend(
            interaction=self.scale * (query.amax(-1) * key.amax(-1)).flatten(0, -2).amax(0),
            logit_shift=logit_shift,
            key_slope=key_slope,
            slope=self.scale * longest_key * bent * own,
            pair=pair,
            own=self.scale * longest_key * bent,
        )


@dataclass(frozen=True, eq=False)
class Bend:
    """On a ball, beyond what a bilinear form with the norm `interaction` does: docs/proofs/local.md#bent-logits.

    By how much more a logit may move, its slope in the attended token, and any slope in the attending token. `pair` and
    `own` are |d^2 s_ij / dx_j^2| and the size of d^2 s_ij / dx_i^2.
    """

    interaction: Float[Tensor, "heads"]
    logit_shift: Float[Tensor, "*batch heads rows keys"]
    key_slope: Float[Tensor, "*batch heads rows keys"]
    slope: Float[Tensor, "*batch heads rows"]
    pair: Float[Tensor, "*batch heads rows keys"]
    own: Float[Tensor, "*batch heads rows"]

    def norms(self, norms: HeadNorms) -> HeadNorms:
        """The norms of heads with what two tokens together do to a logit on this ball."""
        return replace(norms, interaction=self.interaction, stacked_interaction=float(self.interaction.norm()))


def _lengths(
    layer: AttentionLayer, parts: Projections, query: Tensor, key: Tensor, count: float
) -> tuple[Tensor, Tensor]:
    """Lower values of the lengths that norms are given, by heads; infinite without a norm."""

    def lower(norm: HeadNorm | None, raw: Tensor | None, size: Tensor) -> Tensor:
        if norm is None or raw is None:
            return parts.q.new_full(parts.q.shape[:-1], torch.inf)
        found = norm.squares(raw)[..., 0]
        found = found.sqrt().repeat_interleave(layer.heads // found.shape[-2], dim=-2)
        error = count * math.sqrt(norm.coordinates) * (size.norm(dim=-1, keepdim=True) if norm.across else size)
        return (found - error[..., None]).clamp_min(0.0)

    return lower(layer.query_norm, parts.raw_q, query), lower(layer.key_norm, parts.raw_k, key)

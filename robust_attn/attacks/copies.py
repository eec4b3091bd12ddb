"""Measures written with more atoms than tokens, and how the pieces of one token are first moved apart."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.places import standard_normal
from robust_attn.budget import Budget
from robust_attn.spectral.lipschitz import QueryPart

POWER_STEPS = 10


@dataclass(frozen=True, eq=False)
class Split:
    """The same measure with some tokens as several atoms; `origin` says which token an atom is a piece of."""

    base: TokenMeasure
    origin: Int[Tensor, "*batch atoms"]

    def lifted(self, field: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch atoms d"]:
        """A field on tokens as one on atoms: the pieces of a token do as the token does."""
        return field.gather(-2, self.origin[..., None].expand(*self.origin.shape, field.shape[-1]))

    @property
    def rank(self) -> Int[Tensor, "*batch atoms"]:
        """0, 1, 2... for the pieces of one token, which are adjacent."""
        order = torch.arange(self.origin.shape[-1], device=self.origin.device).expand(self.origin.shape)
        return order - torch.searchsorted(self.origin.contiguous(), self.origin.contiguous())


@dataclass(frozen=True, eq=False)
class QueryBlocks:
    """Per token the norm of V C_i A, what its pieces can use when they part, and the direction that attains it."""

    gain: Float[Tensor, "*batch n"]
    direction: Float[Tensor, "*batch n d"]


def equal_parts(measure: TokenMeasure, copies: int, tokens: Int[Tensor, "*batch k"] | None = None) -> Split:
    """All tokens, or those given for each sample, as `copies` adjacent atoms of equal mass."""
    every = torch.arange(measure.length, device=measure.points.device).expand(measure.masses.shape)
    chosen = every if tokens is None else tokens
    origin = torch.cat((every, chosen.repeat_interleave(copies - 1, dim=-1)), dim=-1).sort(dim=-1).values
    pieces = torch.zeros_like(every).scatter_add(-1, origin, torch.ones_like(origin))
    return Split(_gathered(measure, measure.masses / pieces, origin), origin)


def cut(measure: TokenMeasure, source: Int[Tensor, "*batch"], mass: Float[Tensor, "*batch"]) -> Split:
    """One more atom, the last, with `mass` taken from token `source` of each sample."""
    every = torch.arange(measure.length, device=measure.points.device).expand(measure.masses.shape)
    origin = torch.cat((every, source[..., None]), dim=-1)
    whole = _gathered(measure, measure.masses, origin)
    taken = mass[..., None] * torch.nn.functional.one_hot(source, measure.length).to(mass.dtype)
    masses = torch.cat((measure.masses - taken, mass[..., None]), dim=-1)
    return Split(TokenMeasure(whole.points, masses, whole.positions), origin)


def query_blocks(layer: AttentionLayer, measure: TokenMeasure, generator: torch.Generator) -> QueryBlocks:
    """Power iteration on all blocks of the query part at once, which are independent of one another."""
    part = QueryPart(layer.linearize(measure))
    direction = units(standard_normal(measure.points.shape, generator, measure.points))
    for _ in range(POWER_STEPS):
        direction = units(part.vjp(part.jvp(direction)))
    gain = part.jvp(direction).norm(dim=-1)
    return QueryBlocks(torch.where(measure.present, gain, torch.zeros_like(gain)), direction)


def antisymmetric_starts(split: Split, budget: Budget, blocks: QueryBlocks) -> Float[Tensor, "starts *batch atoms d"]:
    """The pieces of a token sent to opposite sides, so that their mean stays: one token alone, and all by their gains.

    Zero-mean motion leaves every average as it is to first order, so only the query part acts
    (docs/proofs/splitting.md#copies).
    Each piece goes a different way (in a budget that they share): those that are together would stay so.
    """
    pieces = torch.zeros_like(blocks.gain).scatter_add(-1, split.origin, torch.ones_like(split.base.masses))
    sign = (split.lifted(pieces[..., None])[..., 0] - 1) / 2 - split.rank
    gain = torch.where(pieces > 1, blocks.gain, torch.zeros_like(blocks.gain))
    best = torch.nn.functional.one_hot(gain.argmax(-1), gain.shape[-1]).to(gain.dtype)
    weights = budget.weights(split.base)[..., None]
    return torch.stack(
        [
            budget.steepest(weights * sign[..., None] * split.lifted(share[..., None] * blocks.direction), split.base)
            for share in (best, gain)
        ]
    )


def _gathered(measure: TokenMeasure, masses: Float[Tensor, "*batch n"], origin: Tensor) -> TokenMeasure:
    points = measure.points.gather(-2, origin[..., None].expand(*origin.shape, measure.width))
    return TokenMeasure(points, masses.gather(-1, origin), measure.positions.gather(-1, origin))


def units(field: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n d"]:
    """Every row scaled to length one; what is zero stays so."""
    size = field.norm(dim=-1, keepdim=True)
    return field / torch.where(size > 0, size, torch.ones_like(size))

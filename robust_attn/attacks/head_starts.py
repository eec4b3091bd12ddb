"""Starts for large budgets: heads divided between two tokens.

Far out the softmax of every head picks one token. If one token draws all heads, the output moves by sum_h B_h x, where
B_h = W_O^h W_V^h and x is how far that token went. Heads whose values pull apart are better served by two: with the
heads S at the first token and h at the second the output moves by B_S x + B_h y, so by at most the top singular value
of (B_S, B_h) for |x|^2 + |y|^2 = 1. The starts are these singular vectors, each with a part along the keys that the
queries of its heads look for, because what is not looked at is not picked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from robust_attn.attacks.copies import units
from robust_attn.attacks.starts import Change, spent, strongest
from robust_attn.attention.jacobian import LayerJacobian, pull_keys
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import visible
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.places import standard_normal
from robust_attn.budget import Budget

DIVISIONS = 2
"""Heads that are set apart in turn: those that promise most."""
ATTENDED = 1
"""Second tokens for each: so many that the head attends most, ..."""
VISIBLE = 2
"""... and so many that most tokens see: those whose keys could draw the most outputs."""
KEY_PART = 1.0
"""Length of the part along the keys, in lengths of the part along the values."""
POWER_STEPS = 20


@dataclass(frozen=True, eq=False)
class Division:
    """One head apart from all others: how far the output moves at most, and the two directions that attain it."""

    head: int
    gain: float
    others: Float[Tensor, "d"]
    alone: Float[Tensor, "d"]


def divided_starts(
    layer: AttentionLayer, measure: TokenMeasure, budget: Budget, generator: torch.Generator, change: Change
) -> Float[Tensor, "starts *batch n d"]:
    """The starts of every sample on the edge of the budget, each or its opposite as is better; none for one head."""
    if layer.heads < 2 or measure.length < 2:
        return measure.points.new_zeros(0, *measure.points.shape)
    divisions = sorted(_divisions(layer, generator), key=lambda division: -division.gain)[:DIVISIONS]
    at = layer.linearize(measure)
    received = (at.attention() * measure.masses[..., None, :, None]).sum(-2)
    keys = _sought(at)
    fields = [field for division in divisions for field in _fields(at, division, received, keys)]
    roots = budget.weights(measure).sqrt()[..., None]
    pairs = (spent(budget, measure, roots * torch.stack(pair)) for pair in fields)
    return torch.cat([strongest(measure, budget, pair, 1, change) for pair in pairs])


def _divisions(layer: AttentionLayer, generator: torch.Generator) -> list[Division]:
    start = standard_normal(layer.output.shape[-2:-1], generator, layer.output)
    return [_division(layer, head, start) for head in range(layer.heads)]


def _division(layer: AttentionLayer, head: int, aim: Float[Tensor, "out"]) -> Division:
    """Power iteration on B_S B_S^T + B_h B_h^T."""
    for _ in range(POWER_STEPS):
        others, alone = _pulled(layer, head, aim)
        moved = _moved(layer, others, range(layer.heads)) + _moved(layer, alone - others, [head])
        size = moved.norm()
        aim = moved / size.clamp_min(torch.finfo(size.dtype).tiny)
    others, alone = _pulled(layer, head, aim)
    return Division(head, float(size.sqrt()), others, alone)


def _pulled(layer: AttentionLayer, head: int, aim: Float[Tensor, "out"]) -> tuple[Tensor, Tensor]:
    """B_S^T and B_h^T of an output."""
    each = ((aim @ layer.output)[:, None] @ layer.value[layer.head_groups])[:, 0]
    return each.sum(0) - each[head], each[head]


def _moved(layer: AttentionLayer, place: Float[Tensor, "d"], heads: Sequence[int]) -> Float[Tensor, "out"]:
    """sum_h B_h x over these heads."""
    values = layer.value[[layer.group_of(head) for head in heads]] @ place
    return (layer.output[list(heads)] @ values[..., None])[..., 0].sum(0)


def _fields(
    at: LayerJacobian,
    division: Division,
    received: Float[Tensor, "*batch heads n"],
    keys: Float[Tensor, "*batch heads n d"],
) -> list[tuple[Tensor, Tensor]]:
    """For every second token the displacements with values one way and the other; keys always the same way."""
    first = received.sum(-2).argmax(-1)
    own = keys[..., division.head, :, :]
    fields = []
    for second in _partners(at, received[..., division.head, :], first):
        parts = ((first, division.others, keys.sum(-3) - own), (second, division.alone, own))
        (forth, beside), (back, opposite) = (
            [_placed(token, sign * way, sought) for token, way, sought in parts] for sign in (1, -1)
        )
        fields.append((forth + beside, back + opposite))
    return fields


def _partners(
    at: LayerJacobian, received: Float[Tensor, "*batch n"], first: Int[Tensor, "*batch"]
) -> list[Int[Tensor, "*batch"]]:
    """Tokens other than the first: by the attention of the head, and by the mass of the tokens that see them."""
    seen = visible(at.layer.mask, at.measure.positions, at.measure.masses).to(received.dtype)
    audience = (at.measure.masses[..., None] * seen).sum(-2)
    taken = torch.nn.functional.one_hot(first, received.shape[-1]).bool() | ~at.measure.present
    tokens: list[Tensor] = []
    for score, wanted in ((received, ATTENDED), (audience, VISIBLE)):
        count = min(wanted, received.shape[-1] - 1)
        tokens += torch.where(taken, -torch.inf, score).topk(count, dim=-1).indices.unbind(-1)
    return tokens


def _sought(at: LayerJacobian) -> Float[Tensor, "*batch heads n d"]:
    """Per head the unit direction in which a token at each position draws the mean query."""
    mean = (at.measure.masses[..., None, :, None] * at.projections.q).sum(-2, keepdim=True)
    return units(pull_keys(at.layer, at.measure.positions, mean.expand(at.projections.q.shape)))


def _placed(
    token: Int[Tensor, "*batch"], way: Float[Tensor, "d"], keys: Float[Tensor, "*batch n d"]
) -> Float[Tensor, "*batch n d"]:
    """A displacement of one token of each sample: along `way`, and as far along the keys sought there."""
    only = torch.nn.functional.one_hot(token, keys.shape[-2]).to(keys.dtype)[..., None]
    return only * (way + KEY_PART * way.norm() * units(keys))

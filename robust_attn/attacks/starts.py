"""Where an ascent begins: along singular directions, with the whole budget on one token, or at random."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from robust_attn.attacks.ascent import repeated
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.operator import Jacobian, ScaledJacobian
from robust_attn.attention.places import standard_normal
from robust_attn.budget import Budget
from robust_attn.spectral.triplets import svds

Change = Callable[[Float[Tensor, "starts *batch n d"]], Float[Tensor, "starts *batch n out"]]
"""From displacements to differences of the output."""

LANCZOS_STEPS = 20
SINGULAR = 2
"""Top singular directions that a move starts from."""
INFLUENTIAL = 6
"""Tokens of large influence on the output to first order, of which..."""
CONCENTRATED = 3
"""... those that change it most when they get the whole budget are starts of a move."""
POWER_STEPS = 1
STARTING_GRADIENTS = LANCZOS_STEPS + 1 + INFLUENTIAL * POWER_STEPS
"""What the starts of a move cost, with a jvp and a vjp together counted as a gradient."""
SMALL_PART = 1e-3
"""Of a start, over which the output changes as the derivative says."""
LINEAR = 0.02
"""Relative difference up to which an output change counts as that of the derivative."""


def exact_change(layer: AttentionLayer, measure: TokenMeasure) -> Change:
    """How the output differs from that at the measure, for stacked displacements."""
    reference = layer(measure)

    def change(fields: Tensor) -> Tensor:
        many = repeated(measure, fields.shape[0])
        return layer(many.with_points(many.points + fields)) - reference

    return change


def move_starts(
    layer: AttentionLayer,
    measure: TokenMeasure,
    budget: Budget,
    generator: torch.Generator,
    *,
    random: int,
    change: Change,
) -> Float[Tensor, "starts *batch n d"]:
    """Singular directions, single tokens and `random` displacements, all on the boundary of the budget."""
    operator = ScaledJacobian(layer.linearize(measure), budget.weights(measure))
    singular = singular_directions(operator, SINGULAR, generator)
    alone = concentrated_directions(operator, INFLUENTIAL, generator)
    families = (
        strongest(measure, budget, spent(budget, measure, fields), keep, change)
        for fields, keep in ((singular, SINGULAR), (alone, CONCENTRATED))
    )
    return torch.cat((*families, *(budget.sample(measure, generator)[None] for _ in range(random))))


def spent(
    budget: Budget, measure: TokenMeasure, fields: Float[Tensor, "starts *batch n d"]
) -> Float[Tensor, "starts *batch n d"]:
    """Directions in the scaled coordinates of the budget's Hilbert norm, as displacements that use the whole budget."""
    many = repeated(measure, fields.shape[0])
    return budget.steepest(budget.weights(many).sqrt()[..., None] * fields, many)


def singular_directions(
    operator: Jacobian, count: int, generator: torch.Generator
) -> Float[Tensor, "starts *batch n d"]:
    """The right singular vectors of the largest singular values, as far as a few Lanczos steps find them."""
    smallest = min(operator.domain[-2:].numel(), operator.codomain[-2:].numel(), LANCZOS_STEPS)
    found = svds(operator, min(count, smallest), generator=generator, steps=LANCZOS_STEPS)
    return found.vt.unflatten(-1, operator.domain[-2:]).movedim(-3, 0)


def concentrated_directions(
    operator: Jacobian, count: int, generator: torch.Generator
) -> Float[Tensor, "starts *batch n d"]:
    """For each of the most influential tokens the direction in which it moves the output most, by itself.

    |J_j^T c| for a random c has mean square |J_j|_F^2, J_j the columns of token j: one vjp ranks all tokens.
    """
    like = torch.empty(0, dtype=operator.dtype, device=operator.device)
    cotangent = standard_normal(operator.codomain, generator, like)
    pulled = operator.vjp(cotangent)
    tokens = pulled.norm(dim=-1).topk(min(count, pulled.shape[-2]), dim=-1).indices.movedim(-1, 0)
    return torch.stack([_strongest_alone(operator, pulled, token) for token in tokens])


def strongest(
    measure: TokenMeasure, budget: Budget, starts: Float[Tensor, "starts *batch n d"], keep: int, change: Change
) -> Float[Tensor, "kept *batch n d"]:
    """Of the starts, each or its opposite as is better, the `keep` that change the output most, sample by sample."""
    many = repeated(measure, 2 * starts.shape[0])
    both = budget.project(torch.cat((starts, -starts)), many)
    forth, back = budget.norm(change(both), many).chunk(2)
    first, second = both.chunk(2)
    better = torch.where((forth >= back)[..., None, None], first, second)
    order = torch.maximum(forth, back).topk(min(keep, starts.shape[0]), dim=0).indices
    return better.gather(0, order[..., None, None].expand(order.shape[0], *better.shape[1:]))


@dataclass(frozen=True, eq=False)
class Seen:
    """Starts, the changes that they make, and whether each of them makes the one that the derivative says."""

    starts: Float[Tensor, "starts *batch n d"]
    changes: Float[Tensor, "starts *batch"]
    linear: bool

    def best(self, count: int) -> Float[Tensor, "kept *batch n d"]:
        """The `count` that change the output most, sample by sample."""
        order = self.changes.topk(min(count, self.starts.shape[0]), dim=0).indices
        return self.starts.gather(0, order[..., None, None].expand(order.shape[0], *self.starts.shape[1:]))


def looked_at(
    measure: TokenMeasure, budget: Budget, starts: Float[Tensor, "starts *batch n d"], change: Change
) -> Seen:
    """The starts all the way and over a small part of it, where the change is that of the derivative.

    Where every start acts as the derivative says, singular directions are the answer.
    """
    many = repeated(measure, starts.shape[0])
    linear = budget.norm(change(SMALL_PART * starts), many) / SMALL_PART
    whole = budget.norm(change(starts), many)
    return Seen(starts, whole, bool(((whole - linear).abs() <= LINEAR * linear.amax(0)).all()))


def _strongest_alone(operator: Jacobian, field: Float[Tensor, "*batch n d"], token: Int[Tensor, "*batch"]) -> Tensor:
    """Power iteration on the columns of one token, from its part of `field`."""
    only = torch.nn.functional.one_hot(token, field.shape[-2])[..., None].to(field.dtype)
    direction = _unit(field * only)
    for _ in range(POWER_STEPS):
        direction = _unit(operator.vjp(operator.jvp(direction)) * only)
    return direction


def _unit(field: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n d"]:
    size = field.flatten(-2).norm(dim=-1)[..., None, None]
    return field / torch.where(size > 0, size, torch.ones_like(size))

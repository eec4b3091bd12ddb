"""Ascent on the output change inside a budget, without a step size to tune, batched over samples.

The step goes towards the budget's own best point for the current gradient (for small radii this is power iteration on
the derivative, and each step increases the objective); where that overshoots, the step is halved. Gradients are the
closed-form transpose of the layer's derivative: one forward pass and one vjp a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget

STALLED = 1e-5
"""Relative gain of a step below which a sample is taken to have arrived."""
SMALLEST_STEP = 1e-4


@dataclass(frozen=True, eq=False)
class Ascent:
    """The best displacement found, the output change it makes, and that change after every step."""

    displacement: Float[Tensor, "*batch n d"]
    output_change: Float[Tensor, "*batch"]
    history: tuple[Float[Tensor, "*batch"], ...]


def ascend(
    layer: AttentionLayer,
    base: TokenMeasure,
    budget: Budget,
    start: Float[Tensor, "*batch n d"],
    *,
    steps: int,
    to_beat: Float[Tensor, "*batch"] | None = None,
) -> Ascent:
    """At most `steps` gradient steps from `start`; the result is never worse than the start, and stops when stalled.

    With `to_beat` it also stops where the present rate of progress, kept up to the end, would not reach that value.
    """
    reference = layer(base)
    best = budget.project(start, base)
    value, gradient = _objective(layer, base, budget, reference, best)
    length = torch.ones_like(value)
    history = [value]
    for done in range(1, steps + 1):
        target = budget.steepest(gradient, base)
        step = length[..., None, None]
        candidate = budget.project((1 - step) * best + step * target, base)
        new_value, new_gradient = _objective(layer, base, budget, reference, candidate)
        better = new_value > value
        progress = torch.where(better, (new_value - value) / new_value, torch.zeros_like(value))
        wide = better[..., None, None]
        best, gradient = torch.where(wide, candidate, best), torch.where(wide, new_gradient, gradient)
        value = torch.where(better, new_value, value)
        history.append(value)
        length = torch.where(better, (2 * length).clamp_max(1.0), length / 2)
        promising = progress > STALLED
        if to_beat is not None:
            promising &= value * (1 + progress * (steps - done)) > to_beat
        still_moving = (better & promising) | (~better & (length > SMALLEST_STEP))
        if not bool(still_moving.any()):
            break
    return Ascent(best, value, tuple(history))


def ascend_all(
    layer: AttentionLayer,
    base: TokenMeasure,
    budget: Budget,
    starts: Sequence[Float[Tensor, "*batch n d"]],
    *,
    steps: int,
) -> Ascent:
    """The strongest of one ascent per start; later starts are given up when they cannot beat the best so far."""
    best = ascend(layer, base, budget, starts[0], steps=steps)
    for start in starts[1:]:
        best = strongest([best, ascend(layer, base, budget, start, steps=steps, to_beat=best.output_change)])
    return best


def strongest(ascents: list[Ascent]) -> Ascent:
    """For every sample the ascent that got furthest, with that ascent's history (shorter ones stay at their end)."""
    changes = torch.stack([ascent.output_change for ascent in ascents])
    choice = changes.argmax(0)
    longest = max(len(ascent.history) for ascent in ascents)
    history = tuple(
        _chosen(torch.stack([ascent.history[min(step, len(ascent.history) - 1)] for ascent in ascents]), choice)
        for step in range(longest)
    )
    displacement = _chosen(torch.stack([ascent.displacement for ascent in ascents]), choice[..., None, None])
    return Ascent(displacement, _chosen(changes, choice), history)


def _chosen(stacked: Tensor, choice: Tensor) -> Tensor:
    return stacked.gather(0, choice.expand(stacked.shape[1:])[None])[0]


def _objective(
    layer: AttentionLayer, base: TokenMeasure, budget: Budget, reference: Tensor, displacement: Tensor
) -> tuple[Tensor, Tensor]:
    """The output change in the budget's norm, and its gradient with respect to the displacement."""
    jacobian = layer.linearize(base.with_points(base.points + displacement))
    change = jacobian.value - reference
    return budget.norm(change, base), jacobian.vjp(budget.norm_gradient(change, base))

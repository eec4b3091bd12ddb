"""Ascent on the output change inside a budget, without a step size to tune, batched over samples and over starts.

A step goes from the best point towards the budget's own best point for the current gradient, however far: for small
radii this is power iteration on the derivative, and each step increases the objective. Momentum is added after every
step that helped. Where a step does not help, momentum is dropped first and then the step shortened. Gradients are the
closed-form transpose of the layer's derivative: one forward pass and one vjp a step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget

STALLED = 1e-6
"""Relative gain of the last PATIENCE steps together below which an ascent is taken to have arrived."""
PATIENCE = 6
WHOLE_WAY = 1e3
"""A step so long that the projection ends at the best point for the gradient."""
MOMENTUM = 0.6
SCREENING = 5
"""Steps that every start gets before the best of each sample go on."""
FINALISTS = 3

Objective = Callable[[Float[Tensor, "*batch n d"]], tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch n d"]]]
"""From displacements to the value to be made large and its gradient."""


@dataclass(frozen=True, eq=False)
class Ascent:
    """The best displacement found, the output change it makes, and that change after every step.

    `gradients` is how many gradients were spent on a sample, over all starts.
    """

    displacement: Float[Tensor, "*batch n d"]
    output_change: Float[Tensor, "*batch"]
    history: tuple[Float[Tensor, "*batch"], ...]
    gradients: int


@dataclass(frozen=True, eq=False)
class _Climb:
    """Where an ascent stands: the best point, the one before it, value and gradient there, and the next step."""

    best: Float[Tensor, "*batch n d"]
    previous: Float[Tensor, "*batch n d"]
    value: Float[Tensor, "*batch"]
    gradient: Float[Tensor, "*batch n d"]
    step: Float[Tensor, "*batch"]
    lively: Bool[Tensor, "*batch"]
    history: Float[Tensor, "*batch steps"]

    @property
    def arrived(self) -> bool:
        """Whether no sample has gained anything to speak of in the last steps."""
        if self.history.shape[-1] <= PATIENCE:
            return False
        return bool((self.value - self.history[..., -1 - PATIENCE] <= STALLED * self.value).all())

    def best_of(self, count: int) -> _Climb:
        """Of the starts on the first axis the `count` with the largest values, sample by sample."""
        choice = self.value.topk(count, dim=0).indices
        return _Climb(**{each.name: _chosen(getattr(self, each.name), choice) for each in fields(self)})


def ascend(
    layer: AttentionLayer, base: TokenMeasure, budget: Budget, start: Float[Tensor, "*batch n d"], *, steps: int
) -> Ascent:
    """At most `steps` gradient steps from `start`; the result is never worse than the start, and stops when stalled."""
    return climb(output_change(layer, base, budget), base, budget, start, steps=steps)


def climb(
    objective: Objective,
    base: TokenMeasure,
    budget: Budget,
    start: Float[Tensor, "*batch n d"],
    *,
    steps: int,
    longest: float = WHOLE_WAY,
) -> Ascent:
    """The same for any objective on displacements of `base` inside the budget; `longest` is the first step."""
    found = _climbed(_begun(objective, base, budget, start, longest), objective, base, budget, steps)
    return Ascent(found.best, found.value, tuple(found.history.unbind(-1)), found.history.shape[-1])


def ascend_all(
    layer: AttentionLayer, base: TokenMeasure, budget: Budget, starts: Float[Tensor, "starts *batch n d"], *, steps: int
) -> Ascent:
    """The strongest of one ascent per start, sample by sample.

    All starts go a few steps together; the best of each sample go on to the end. So the result is never worse than any
    of the starts, nor than those few steps from it.
    """
    count = starts.shape[0]
    first = min(SCREENING, steps) if count > FINALISTS else 0
    many = repeated(base, count)
    objective = output_change(layer, many, budget)
    screened = _climbed(_begun(objective, many, budget, starts), objective, many, budget, first)
    spent = count * screened.history.shape[-1]
    kept = min(FINALISTS, count)
    few = repeated(base, kept)
    best = _climbed(screened.best_of(kept), output_change(layer, few, budget), few, budget, steps - first)
    spent += kept * (best.history.shape[-1] - screened.history.shape[-1])
    found = best.best_of(1)
    return Ascent(found.best[0], found.value[0], tuple(found.history[0].unbind(-1)), spent)


def output_change(layer: AttentionLayer, base: TokenMeasure, budget: Budget) -> Objective:
    """The output change in the budget's norm, and its gradient with respect to the displacement."""
    reference = layer(base)

    def objective(displacement: Tensor) -> tuple[Tensor, Tensor]:
        jacobian = layer.linearize(base.with_points(base.points + displacement))
        change = jacobian.value - reference
        return budget.norm(change, base), jacobian.vjp(budget.norm_gradient(change, base))

    return objective


def repeated(measure: TokenMeasure, count: int) -> TokenMeasure:
    """The same measure `count` times along a new first axis, without copying."""
    parts = (measure.points, measure.masses, measure.positions)
    return TokenMeasure(*(part.expand(count, *part.shape) for part in parts))


def _begun(
    objective: Objective, base: TokenMeasure, budget: Budget, start: Tensor, longest: float = WHOLE_WAY
) -> _Climb:
    best = budget.project(start, base)
    value, gradient = objective(best)
    step, lively = torch.full_like(value, longest), torch.zeros_like(value, dtype=torch.bool)
    return _Climb(best, best, value, gradient, step, lively, value[..., None])


def _climbed(at: _Climb, objective: Objective, base: TokenMeasure, budget: Budget, steps: int) -> _Climb:
    for _ in range(steps):
        if at.arrived:
            break
        at = _stepped(at, objective, base, budget)
    return at


def _stepped(at: _Climb, objective: Objective, base: TokenMeasure, budget: Budget) -> _Climb:
    """One gradient step; what does not improve a sample changes only the length of its next step."""
    target = budget.steepest(at.gradient, base)
    ahead = torch.where(_wide(at.lively), MOMENTUM * (at.best - at.previous), 0.0)
    step = _wide(at.step)
    candidate = budget.project(at.best + step * target + (1 + step) * ahead, base)
    value, gradient = objective(candidate)
    better = value > at.value
    wide = _wide(better)
    shorter = torch.where(at.step > 1, torch.ones_like(at.step), at.step / 2)
    value = torch.where(better, value, at.value)
    return _Climb(
        best=torch.where(wide, candidate, at.best),
        previous=torch.where(wide, at.best, at.previous),
        value=value,
        gradient=torch.where(wide, gradient, at.gradient),
        step=torch.where(better, (2 * at.step).clamp_max(WHOLE_WAY), torch.where(at.lively, at.step, shorter)),
        lively=better,
        history=torch.cat((at.history, value[..., None]), dim=-1),
    )


def _wide(field: Tensor) -> Tensor:
    """One number a sample, to be multiplied with displacements."""
    return field[..., None, None]


def _chosen(stacked: Tensor, choice: Tensor) -> Tensor:
    """Entries of the first axis, sample by sample: `choice` has an axis of its own in front of those of the samples."""
    index = choice.reshape(*choice.shape, *([1] * (stacked.dim() - choice.dim())))
    return stacked.gather(0, index.expand(choice.shape[0], *stacked.shape[1:]))

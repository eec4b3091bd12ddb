"""Ascent on an objective inside a budget, without a step size to tune, batched over samples and over starts.

Every start first roams: steps of a quarter of the budget towards its best point for the current gradient, uphill or
not, which leaves poor summits behind. Half of the starts are dropped after every few steps, sample by sample. The last
ones climb by a quasi-Newton method on the edge of the budget, whose steps are halved until they help. Gradients of an
output change are the closed-form transpose of the layer's derivative: one forward pass and one vjp a step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from robust_attn.attacks.quasi_newton import Memory, dot, wide
from robust_attn.attention.difference import Difference
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget

STALLED = 1e-6
"""Relative gain of the last PATIENCE steps together below which an ascent is taken to have arrived."""
PATIENCE = 6
STRIDE = 0.25
"""Length of a step before anything is known, as a part of the budget."""
WHOLE_WAY = 1e3
"""A step so long that the projection ends at the budget's best point for the gradient: power iteration in disguise."""
SCREENING = 5
"""Steps that starts roam before the worse half of them is dropped."""
FINALISTS = 3
LAST_ROUND = 15
"""Steps that these climb before only the best one goes on."""
TRIES = 3
"""Steps in a row that may fail before what was learnt of the slope is forgotten."""

Objective = Callable[[Float[Tensor, "*batch n d"]], tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch n d"]]]
"""From displacements to the value to be made large and its gradient."""


@dataclass(frozen=True, eq=False)
class Ascent:
    """The best displacement found, the value there (of a loss too), and that after every step."""

    displacement: Float[Tensor, "*batch n d"]
    output_change: Float[Tensor, "*batch"]
    history: tuple[Float[Tensor, "*batch"], ...]


@dataclass(frozen=True, eq=False)
class _Summit:
    """The best displacement so far, its value and gradient, and the values after every step."""

    place: Float[Tensor, "*batch n d"]
    value: Float[Tensor, "*batch"]
    gradient: Float[Tensor, "*batch n d"]
    history: Float[Tensor, "*batch steps"]

    @property
    def steps(self) -> int:
        """Gradients that led here, the one at the start among them."""
        return self.history.shape[-1]

    @property
    def arrived(self) -> bool:
        """Whether no sample has gained anything to speak of in the last steps."""
        if self.steps <= PATIENCE:
            return False
        return bool((self.value - self.history[..., -1 - PATIENCE] <= STALLED * self.value).all())

    def tried(self, place: Tensor, value: Tensor, gradient: Tensor) -> _Summit:
        """After one more step: what was tried where it is higher, else what was there."""
        better = value > self.value
        best = torch.where(better, value, self.value)
        return _Summit(
            place=torch.where(wide(better), place, self.place),
            value=best,
            gradient=torch.where(wide(better), gradient, self.gradient),
            history=torch.cat((self.history, best[..., None]), dim=-1),
        )

    def or_better(self, other: _Summit) -> _Summit:
        """Where the other is higher, that; and what is known after every step is the higher of the two."""
        better = other.value > self.value
        return _Summit(
            place=torch.where(wide(better), other.place, self.place),
            value=torch.maximum(other.value, self.value),
            gradient=torch.where(wide(better), other.gradient, self.gradient),
            history=torch.maximum(self.history, other.value[..., None]),
        )

    def best_of(self, count: int) -> _Summit:
        """Of the starts on the first axis the `count` with the largest values, sample by sample."""
        choice = self.value.topk(count, dim=0).indices
        return _Summit(*(_chosen(field, choice) for field in (self.place, self.value, self.gradient, self.history)))


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
    stride: float = WHOLE_WAY,
) -> Ascent:
    """The same for any objective on displacements of `base` inside the budget; `stride` is the first step's length."""
    found = _climbed(_begun(objective, base, budget, start), objective, base, budget, steps=steps, stride=stride)
    return Ascent(found.place, found.value, tuple(found.history.unbind(-1)))


def ascend_all(
    objective_at: Callable[[TokenMeasure], Objective],
    base: TokenMeasure,
    budget: Budget,
    starts: Float[Tensor, "starts *batch n d"],
    *,
    steps: int,
    summit: Float[Tensor, "*batch n d"] | None = None,
) -> Ascent:
    """The strongest of one ascent per start, sample by sample, each of at most `steps` steps.

    All starts roam together; of each sample half of them go on, until a few are left; these climb, and then the best of
    them to the end. So the result is never worse than any of the starts, nor than the few steps that each of them went.
    A `summit` was climbed before: it is the result where none of these few is higher, and nobody climbs there again.
    """
    count, rivals = starts.shape[0], summit is not None
    many = repeated(base, count)
    found = _begun(objective_at(many), many, budget, starts)
    while count > 1 or rivals:
        advance, limit = (_roamed, SCREENING) if count > FINALISTS else (_climbed, LAST_ROUND)
        many, rivals = repeated(base, count), rivals and count > FINALISTS
        found = advance(found, objective_at(many), many, budget, steps=min(limit, steps))
        steps = max(0, steps - limit)
        count = max(FINALISTS, -(-count // 2)) if count > FINALISTS else 1
        found = found.best_of(count)
    many = repeated(base, 1)
    if summit is not None:
        found = found.or_better(_begun(objective_at(many), many, budget, summit[None]))
    found = _climbed(found, objective_at(many), many, budget, steps=steps)
    return Ascent(found.place[0], found.value[0], tuple(found.history[0].unbind(-1)))


def output_change(layer: AttentionLayer, base: TokenMeasure, budget: Budget) -> Objective:
    """The output change in the budget's norm, and its gradient with respect to the displacement."""
    reference = layer(base)

    def objective(displacement: Tensor) -> tuple[Tensor, Tensor]:
        jacobian = layer.linearize(base.with_points(base.points + displacement))
        change = jacobian.value - reference
        return budget.norm(change, base), jacobian.vjp(budget.norm_gradient(change, base))

    return objective


def rough_change(difference: Difference, base: TokenMeasure, budget: Budget) -> Objective:
    """The same to six digits, in single precision: for displacements of `base`, the measure of the difference or that
    repeated, in the precision of the displacements."""
    single = TokenMeasure(base.points.float(), base.masses.float(), base.positions)

    def objective(displacement: Tensor) -> tuple[Tensor, Tensor]:
        there = difference.moved(displacement)
        value, cotangent = budget.norm(there.value, single), budget.norm_gradient(there.value, single)
        return value.to(displacement.dtype), there.vjp(cotangent).to(displacement.dtype)

    return objective


def measured(found: Ascent, places: Float[Tensor, "places *batch n d"], values: Callable[[Tensor], Tensor]) -> Ascent:
    """A rough ascent with exact values: sample by sample the best of the places, of which what it found is the first.

    The others are its starts, where one of them is better after all.
    """
    reached = values(places)
    reached = torch.where(torch.isnan(reached), -torch.inf, reached)
    value, choice = reached.max(0)
    history = [torch.minimum(rough.to(value), value) for rough in found.history[:-1]]
    return Ascent(_chosen(places, choice[None])[0], value, (*history, value))


def repeated(measure: TokenMeasure, count: int) -> TokenMeasure:
    """The same measure `count` times along a new first axis, without copying."""
    parts = (measure.points, measure.masses, measure.positions)
    return TokenMeasure(*(part.expand(count, *part.shape) for part in parts))


def _begun(objective: Objective, base: TokenMeasure, budget: Budget, start: Tensor) -> _Summit:
    """At the starts; where one is not finite, at the tokens themselves, and what has no value is below everything."""
    place = budget.project(start, base)
    place = torch.where(wide(torch.isfinite(place).flatten(-2).all(-1)), place, 0.0)
    value, gradient = objective(place)
    value = torch.where(torch.isnan(value), -torch.inf, value)
    return _Summit(place, value, gradient, value[..., None])


def _roamed(best: _Summit, objective: Objective, base: TokenMeasure, budget: Budget, *, steps: int) -> _Summit:
    """Steps of one length from wherever the last one ended."""
    place, gradient = best.place, best.gradient
    for _ in range(steps):
        place = budget.project(place + STRIDE * budget.steepest(gradient, base), base)
        value, gradient = objective(place)
        best = best.tried(place, value, gradient)
    return best


@dataclass(frozen=True, eq=False)
class _Climb:
    """An ascent by quasi-Newton steps: what is known of the slope, and how often in a row a step did not help."""

    best: _Summit
    slope: Float[Tensor, "*batch n d"]
    memory: Memory
    failures: Int[Tensor, "*batch"]


def _climbed(
    best: _Summit, objective: Objective, base: TokenMeasure, budget: Budget, *, steps: int, stride: float = STRIDE
) -> _Summit:
    """From the best points, by steps that help or are not made."""
    slope = budget.slope(best.gradient, best.place, base)
    at = _Climb(best, slope, Memory.empty(slope), torch.zeros_like(best.value, dtype=torch.long))
    for _ in range(steps):
        if at.best.arrived:
            break
        at = _stepped(at, objective, base, budget, stride)
    return at.best


def _stepped(at: _Climb, objective: Objective, base: TokenMeasure, budget: Budget, stride: float) -> _Climb:
    """One gradient. Where the step does not help, what it shows of the slope does, then a shorter one."""
    roots = budget.weights(base).sqrt()[..., None]
    newton = at.memory.direction(at.slope)
    shorter = 0.5 ** (at.failures - 1).clamp_min(0)
    first = torch.where(at.failures == 0, stride, min(stride, STRIDE) * shorter)
    plain = wide(first) * roots * budget.steepest(at.best.gradient, base)
    uphill = (dot(newton, at.slope) > 0) & (at.failures < TRIES)
    step = torch.where(wide(uphill), wide(shorter) * newton, plain)
    candidate = budget.project(at.best.place + torch.where(roots > 0, step / roots, 0.0), base)
    value, gradient = objective(candidate)
    best = at.best.tried(candidate, value, gradient)
    fall = at.slope - budget.slope(gradient, candidate, base)
    memory = at.memory.only(at.failures < TRIES).with_pair(roots * (candidate - at.best.place), fall)
    failures = torch.where(best.value > at.best.value, 0, at.failures + 1)
    return _Climb(best, budget.slope(best.gradient, best.place, base), memory, failures)


def _chosen(stacked: Tensor, choice: Tensor) -> Tensor:
    """Entries of the first axis, sample by sample: `choice` has an axis of its own in front of those of the samples."""
    index = choice.reshape(*choice.shape, *([1] * (stacked.dim() - choice.dim())))
    return stacked.gather(0, index.expand(choice.shape[0], *stacked.shape[1:]))

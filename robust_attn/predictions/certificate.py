"""The certified radius of a prediction: the largest perturbation for which no margin can reach zero."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from robust_attn.predictions.chance import raised, range_and_norm
from robust_attn.predictions.influence import Influence
from robust_attn.predictions.memory import kept_memory
from robust_attn.predictions.plan import SLACK, HopelessPlanError, Margins, Plan, Slack
from robust_attn.predictions.sketch import BasisDraws, Draws, GaussianDraws
from robust_attn.predictions.steps import Network
from robust_attn.predictions.tape import Tape
from robust_attn.predictions.travel import confirmed, planned
from robust_attn.predictions.walks import FirstSketch, started
from robust_attn.types import UserError

RELATIVE_ROUNDING, ABSOLUTE_ROUNDING = 1e-6, 1e-9
"""What is taken off every margin for rounding: relative to the largest logit, and at least."""
RESERVES = (1.08, 1.5, 2.5, 2.5)
"""After each attempt: what slack gets beyond the ratio that it failed by, if it did."""
LEAP = 1.5
"""The largest step from a radius with a plan to the next one tried."""
STEP_DOWN = 1.3
"""The first step from a radius without a plan to the next one tried; each further one is twice as large."""
FULL_GROWTH, GROWTH_POWER = 0.25, 5
"""Remainders relative to the first order where plans end, most often, and the power of the radius they grow with."""
ATTEMPTS = len(RESERVES)
"""How many plans may be put to the test; the probability of failure is shared between them."""
LARGEST_BASIS = 4_000_000
"""Entries of the largest list of tangents that a deterministic certificate may need."""


ENTRIES = 1.2e8
"""Entries that one list of samples may have over all nodes."""


@dataclass(frozen=True, eq=False)
class PredictionCertificate:
    """No perturbation of norm at most `radius` changes the predicted class, but for `failure_probability`.

    `shares`: by step of the model, an upper value of what its remainders take off the margin at that radius (each in
    its own worst case, through the clean gradient); `first` and `second` are the first two orders of the whole model.
    """

    radius: float
    margin: float
    failure_probability: float
    shares: Mapping[str, float] = field(default_factory=dict)
    seed: int | None = None
    verdict: str = "UNKNOWN"


@dataclass(frozen=True)
class Effort:
    """How many Gaussian samples a list has (None: by the size of the model), and how accurately the radius is searched.

    `planning`: how many of them plans are made with; `start`: the first radius tried.
    """

    samples: int | None = None
    planning: int = 48
    accuracy: float = 0.06
    start: float = 3e-3
    largest: float = 1.0

    def count(self, tape: Tape) -> int:
        """Samples for one list: as many as the entries of all nodes allow."""
        entries = sum(node.value.numel() for node in tape.nodes)
        return self.samples or int(min(max(ENTRIES / entries, 128), 320))


def certified_prediction(
    network: Network,
    points: Tensor,
    *,
    perturb: int | Literal["all", "one_word"] = "all",
    failure_probability: float = 1e-9,
    deterministic: bool = False,
    seed: int | None = None,
    effort: Effort | None = None,
) -> PredictionCertificate:
    """The certified radius of the network's prediction at the input [n, d].

    `perturb`: all rows together in the Frobenius norm, the row of that index alone, or any one row ("one_word": the
    smallest radius over rows, the failure probability shared between them).
    """
    if perturb == "one_word":
        rows = [
            certified_prediction(network, points, perturb=row, failure_probability=failure_probability / len(points),
                                 deterministic=deterministic, seed=None if seed is None else seed + row, effort=effort)
            for row in range(len(points))
        ]  # fmt: skip
        return replace(min(rows, key=lambda each: each.radius), failure_probability=failure_probability, seed=seed)
    with torch.no_grad(), kept_memory():
        tape = network.tape(points.double())
        free = torch.zeros_like(tape.value(0))
        free[slice(None) if perturb == "all" else perturb] = 1
        seed = seed if deterministic or seed is not None else secrets.randbits(62)
        chance = _Chance(tape, failure_probability, effort or Effort(), seed, deterministic)
        return _certificate(tape, free, chance)


def _certificate(tape: Tape, free: Tensor, chance: _Chance) -> PredictionCertificate:
    rivals = Rivals.of(tape.logits)
    margin = float(rivals.margins(tape.logits).min())
    if not (math.isfinite(margin) and margin > 0):
        return PredictionCertificate(0.0, margin, 0.0, seed=chance.seed)
    found = _Search(tape, free, rivals, chance).largest()
    if found is None:
        return PredictionCertificate(0.0, margin, chance.probability, seed=chance.seed)
    plan, margins = found
    shares = _shares(tape, plan, margins, rivals)
    return PredictionCertificate(plan.radius, margin, chance.probability, shares, chance.seed, "HOLDS")


@dataclass(frozen=True)
class Rivals:
    """The predicted class and all others."""

    label: int
    others: tuple[int, ...]

    @classmethod
    def of(cls, logits: Tensor) -> Rivals:
        """By the largest logit."""
        label = int(logits.argmax())
        return cls(label, tuple(each for each in range(len(logits)) if each != label))

    def margins(self, logits: Tensor) -> Tensor:
        """The predicted class minus every other one, along the last axis; linear in the logits."""
        return logits[..., self.label, None] - logits[..., list(self.others)]


def _rivals(logits: Tensor) -> tuple[float, Tensor]:
    """The smallest margin, and the map from logits to margins as a matrix: for few classes."""
    margins = Rivals.of(logits).margins
    return float(margins(logits).min()), margins(torch.eye(len(logits), dtype=logits.dtype)).T


class _Chance:
    """Where randomness comes from, and how much of the failure probability one inequality gets: the only place."""

    def __init__(self, tape: Tape, probability: float, effort: Effort, seed: int | None, deterministic: bool) -> None:
        self.deterministic, self.effort, self.seed, self._tape = deterministic, effort, seed, tape
        self.probability = 0.0 if deterministic else probability
        self._range, self._norm = range_and_norm(tape, probability, attempts=ATTEMPTS)
        self._generator = np.random.default_rng(seed)

    def draws(self, free: Tensor, *, planning: bool = False) -> Draws:
        """Fresh draws."""
        if not self.deterministic:
            draws = GaussianDraws(self._generator, self.effort.count(self._tape), self._range, self._norm)
            return draws.fewer(self.effort.planning) if planning else draws
        injected = sum(node.value.numel() for node in self._tape.nodes if node.is_curved)
        largest = max(node.value.numel() for node in self._tape.nodes)
        if max(injected, int(free.sum()) ** 2) * largest > LARGEST_BASIS:
            raise UserError(f"deterministic certificates are for small inputs, not {int(free.sum())} free coordinates.")
        return BasisDraws(free, injected)


@dataclass(eq=False)
class _Search:
    tape: Tape
    free: Tensor
    rivals: Rivals
    chance: _Chance

    def largest(self) -> tuple[Plan, Margins] | None:
        """The largest radius whose plan is good, tried with fresh samples; a little less if those do not confirm it."""
        keep = None if self.chance.deterministic else 2 * self.chance.effort.planning
        draws = self.chance.draws(self.free)
        sketch = FirstSketch.of(self.tape, started(draws, self.free), draws, self.rivals.margins, keep=keep)
        self.influence = Influence.of(self.tape, sketch)
        plan = self._largest_plan(sketch)
        for attempt in range(ATTEMPTS):
            if plan is None:
                return None
            draws = self.chance.draws(self.free)
            margins = confirmed(self.tape, sketch, plan, draws, self.rivals.margins, start=started(draws, self.free))
            if margins.worst <= 1 and plan.is_finite and self._safe(margins):
                return plan, margins
            less = 0.99 if margins.worst > 1 else 0.9
            plan = self._good_plan(sketch, less * plan.radius, raised(plan.slack, margins.ratios, RESERVES[attempt]))
        return None

    def _good_plan(self, sketch: FirstSketch, radius: float, slack: Slack) -> Plan | None:
        """The plan at this radius, or at the next smaller one where there is hope."""
        plans = (self._plan(sketch, radius * 0.97**turn, slack) for turn in range(30))
        return next((plan for plan in plans if plan is not None), None)

    def _plan(self, sketch: FirstSketch, radius: float, slack: Slack = SLACK) -> Plan | None:
        """A plan that leaves every margin positive, if there is one."""
        draws, empty = self.chance.draws(self.free, planning=True), Plan(radius, not self.chance.deterministic, slack)
        try:
            plan, margins = planned(self.tape, sketch, empty, draws, self.rivals.margins, influence=self.influence)
        except HopelessPlanError:
            return None
        return plan if plan.is_finite and self._safe(margins) else None

    def _largest_plan(self, sketch: FirstSketch) -> Plan | None:
        """Leaps and bisection of the logarithm with plans alone."""
        effort, found = self.chance.effort, None
        good, bad, radius, down = 0.0, math.inf, effort.start, STEP_DOWN
        while bad > good * (1 + effort.accuracy) and 1e-12 < radius <= effort.largest:
            plan = self._plan(sketch, radius)
            if plan is not None:
                good, found = radius, plan
                radius = min(_farthest(plan, effort.accuracy), math.sqrt(good * bad))
            else:
                bad = radius
                radius, down = (bad / down, down**2) if found is None else (math.sqrt(good * bad), down)
        return found

    def _safe(self, margins: Margins) -> bool:
        clean = self.rivals.margins(self.tape.logits)
        rounding = RELATIVE_ROUNDING * float(self.tape.logits.abs().max()) + ABSOLUTE_ROUNDING
        return bool((clean - margins.total > rounding).all())


def _farthest(plan: Plan, accuracy: float) -> float:
    """A guess of the largest radius with a plan, from how large remainders are in this one; a little above at least."""
    growth = sum(plan.masses.values()) / plan.radius
    step = (FULL_GROWTH / growth) ** (1 / GROWTH_POWER) if growth > 0 else LEAP
    return plan.radius * min(max(step, 1 + accuracy), LEAP)


def _shares(tape: Tape, plan: Plan, margins: Margins, rivals: Rivals) -> dict[str, float]:
    """By step |m * g|, m the half axes of a remainder and g the gradient of the closest margin there."""
    closest = int(rivals.margins(tape.logits).argmin())
    gradients = _gradients(tape, lambda logits: rivals.margins(logits)[closest])
    names = ("first", "second", "third", "fourth")
    shares = {name: float(size[closest]) for name, size in zip(names, margins.orders, strict=False)}
    for index, axes in plan.axes.items():
        step = tape.nodes[index].step
        shares[step] = shares.get(step, 0.0) + float((axes * gradients[index]).norm())
    return shares


def _gradients(tape: Tape, functional: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """The derivative of the functional of the logits with respect to every node."""
    with torch.enable_grad():
        values = tape.replayed(tape.value(0).clone().requires_grad_(True))
        found = torch.autograd.grad(functional(values[-1]), values, allow_unused=True)
    return [torch.zeros_like(value) if each is None else each for value, each in zip(values, found, strict=True)]

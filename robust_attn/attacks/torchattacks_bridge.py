"""torchattacks' attacks by name, on a layer: the change of its output becomes a logit of a stand-in classifier."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from robust_attn.attacks.attack import Attack, Proposal
from robust_attn.attacks.torchattacks_box import Box, BudgetBox
from robust_attn.attacks.torchattacks_table import (
    CLASSES,
    RELATIVE_NOISE,
    SUITABLE,
    Ball,
    Suited,
    checked_name,
)
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget, PerToken
from robust_attn.types import FieldError

NUDGE = 1e-3
"""How far beside the tokens the change is looked at where an attack starts at the tokens, as a part of the budget."""
SMALLEST_CHANGE = 1e-12
"""Logit of `unchanged` for attacks that must fool: any change beyond rounding has a larger one."""

Logits = Callable[[Float[Tensor, "samples n d"]], Float[Tensor, "samples classes"]]


class BoxedClassifier(nn.Module):
    """A classifier of points that takes images of the box instead, and counts the gradients that it is asked for."""

    def __init__(self, box: Box, logits: Logits) -> None:
        super().__init__()
        self.box = box
        self.logits = logits
        self.gradients = 0
        # torchattacks asks the first parameter for its device.
        self.device_of = nn.Parameter(box.image.new_zeros(()), requires_grad=False)

    def forward(self, images: Float[Tensor, "samples channels height width"]) -> Float[Tensor, "samples classes"]:
        """Logits of the points that the images stand for."""
        self.gradients += int(torch.is_grad_enabled() and images.requires_grad)
        return self.logits(self.box.points(images))


@dataclass(frozen=True)
class Recipe:
    """An attack of torchattacks: the name of its class, its number of steps, and its alpha as a part of its eps."""

    name: str
    steps: int = 30
    step_size: float = 0.25

    def __post_init__(self) -> None:
        checked_name(self.name)
        if not (math.isfinite(self.step_size) and self.step_size > 0):
            raise FieldError("step_size", f"must be a finite number above zero, got {self.step_size}.")

    @property
    def suited(self) -> Suited:
        """What the table says about it."""
        return SUITABLE[self.name]

    def run(
        self, classifier: BoxedClassifier, label: int, generator: torch.Generator, *, per_token: bool
    ) -> Float[Tensor, "n d"]:
        """Where it leaves the points. The global random states, from which torchattacks draws, are as they were.

        A pixel that the attack leaves undefined (0/0, where a gradient vanishes) stays where it was.
        """
        import torchattacks

        seed = int(torch.randint(2**31, (), generator=generator))
        image = classifier.box.image
        with _seeded(seed), torch.enable_grad():
            kind = getattr(torchattacks, self.name)
            attack = kind(classifier, **self._arguments(kind, classifier.box, seed, per_token=per_token))
            found = attack(image, torch.tensor([label])).detach().to(image.dtype)
        return classifier.box.points(torch.where(found.isfinite(), found, image))[0]

    def _arguments(self, kind: Any, box: Box, seed: int, *, per_token: bool) -> dict[str, Any]:
        """Those that its constructor knows."""
        ball = self.suited.ball
        if ball is Ball.EITHER:
            ball = Ball.LINF if per_token else Ball.L2
        eps = box.l2_radius() if ball is Ball.L2 else box.linf_radius()
        per_pixel = eps / math.sqrt(box.image.numel()) if ball is Ball.L2 else eps
        known = {
            "norm": str(ball),
            "eps": eps,
            "alpha": eps * (self.step_size if self.suited.alpha is None else self.suited.alpha),
            "steps": self.steps,
            "std": per_pixel,
            "noise_sd": RELATIVE_NOISE * per_pixel,
            "seed": seed,
            **self.suited.options,
        }
        return {name: known[name] for name in inspect.signature(kind).parameters if name in known}


@final
@dataclass(frozen=True)
class Torchattack(Attack):
    """An attack of torchattacks by the name of its class, on one sample at a time."""

    name: str  # type: ignore[misc]  # an instance's own: torchattacks has many
    steps: int = 30
    step_size: float = 0.25

    def __post_init__(self) -> None:
        _ = self.recipe

    @property
    def recipe(self) -> Recipe:
        """What torchattacks is asked for."""
        return Recipe(self.name, self.steps, self.step_size)

    def propose(
        self, layer: AttentionLayer, measure: TokenMeasure, budget: Budget, generator: torch.Generator
    ) -> Proposal:
        """Where the attack leaves every sample; the framework projects and checks as for any other."""
        if budget.radius == 0:
            return Proposal(measure, measure.points)
        found, gradients = [], 0
        for sample in _samples(measure):
            logits = change_logits(layer, sample, budget, self.recipe.suited, generator)
            classifier = BoxedClassifier(BudgetBox(sample, budget), logits)
            found.append(self.recipe.run(classifier, 0, generator, per_token=isinstance(budget, PerToken)))
            gradients = max(gradients, classifier.gradients)
        return Proposal(measure, torch.stack(found).reshape(measure.points.shape), gradients=gradients)


def change_logits(
    layer: AttentionLayer, measure: TokenMeasure, budget: Budget, suited: Suited, generator: torch.Generator
) -> Logits:
    """Logits of (unchanged, changed, nothing, nothing) at points near one sample: `changed` is c / (1 + c).

    c is the output change in the budget's norm over that of a random displacement, so every usual loss of the label
    `unchanged` grows with it and none saturates. The logit of `unchanged` is 1, which is never reached, or next to
    zero for attacks that must fool. The norm has no gradient at the tokens, so attacks that start there see the change
    at points a little beside, the same all the time.
    """
    reference, aside = layer(measure), budget.sample(measure, generator)
    scale = budget.norm(layer(measure.with_points(measure.points + aside)) - reference, measure)
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    nudge = NUDGE * aside if suited.from_centre else torch.zeros_like(aside)

    def logits(points: Float[Tensor, "samples n d"]) -> Float[Tensor, "samples classes"]:
        masses, positions = (part.expand(points.shape[:-1]) for part in (measure.masses, measure.positions))
        many = TokenMeasure(points + nudge, masses, positions)
        change = budget.norm(layer(many) - reference, many) / scale
        unchanged = torch.full_like(change, SMALLEST_CHANGE if suited.must_fool else 1.0)
        nothing = [-torch.ones_like(change)] * (CLASSES - 2)
        return torch.stack([unchanged, change / (1 + change), *nothing], dim=-1)

    return logits


def _samples(measure: TokenMeasure) -> Iterator[TokenMeasure]:
    points = measure.points.reshape(-1, *measure.points.shape[-2:])
    masses, positions = (part.reshape(-1, part.shape[-1]) for part in (measure.masses, measure.positions))
    return map(TokenMeasure, points, masses, positions)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """torch's and NumPy's global generators start at `seed` inside and are as they were before afterwards.

    NumPy does not warn: OnePixel divides by a spread that is zero once all its candidates agree.
    """
    kept = np.random.get_state()
    with torch.random.fork_rng(devices=[]), np.errstate(all="ignore"):
        torch.default_generator.manual_seed(seed)
        np.random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(kept)

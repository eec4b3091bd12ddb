"""Attacks on the loss of a whole classifier: move its input points, split their mass, or ask torchattacks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import torch

from robust_attn.attacks.ascent import climb
from robust_attn.attacks.torchattacks_box import BudgetBox, PixelBox
from robust_attn.attacks.torchattacks_bridge import BoxedClassifier, Recipe
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget, PerToken
from robust_attn.through.classifier import ImageClassifier
from robust_attn.through.victim import Perturbed, Victim
from robust_attn.types import UserError


class ThroughAttack(ABC):
    """Perturbs the input of a classifier inside a budget so that the loss of its prediction grows."""

    @property
    @abstractmethod
    def name(self) -> str:
        """As records call it."""

    @property
    def copies(self) -> int:
        """Atoms per token."""
        return 1

    @property
    def moving(self) -> ThroughAttack | None:
        """The attack that does the same without splitting mass, None where this one does not split."""
        return None

    @abstractmethod
    def candidates(
        self, victim: Victim, budget: Budget, generator: torch.Generator, known: Perturbed | None = None
    ) -> Iterator[Perturbed]:
        """One perturbed input per start, computed as they are asked for.

        `known` is one that flipped the prediction with a larger budget, if there is one: a start as well.
        """

    @final
    def strongest(self, victim: Victim, budget: Budget, generator: torch.Generator) -> Perturbed:
        """The candidate with the largest loss."""
        return max(self.candidates(victim, budget, generator), key=lambda found: found.loss)


@final
@dataclass(frozen=True)
class MoveThrough(ThroughAttack):
    """The ascent of `Move`, on the loss: from the input itself, from what is known, and from random starts."""

    steps: int = 30
    restarts: int = 1

    @property
    def name(self) -> str:
        """As the attack on layers."""
        return "move"

    def candidates(
        self, victim: Victim, budget: Budget, generator: torch.Generator, known: Perturbed | None = None
    ) -> Iterator[Perturbed]:
        """Pixels are left to torchattacks, which keeps them in their range."""
        if isinstance(victim.classifier, ImageClassifier):
            raise UserError("the pixels of an image are attacked with attack=torchattacks, which keeps them in range.")
        base = victim.base
        starts = [torch.zeros_like(base.points)]
        if known is not None and known.base.length == base.length:
            closer = budget.radius / known.radius * known.displacement
            yield victim.perturbed(base, closer, budget)
            starts.insert(0, closer)
        starts += [budget.sample(base, generator) for _ in range(self.restarts)]
        for start in starts:
            found = climb(victim.objective(base), base, budget, start, steps=self.steps)
            yield victim.perturbed(base, found.displacement, budget)


@final
@dataclass(frozen=True)
class TorchattacksThrough(ThroughAttack):
    """An attack of torchattacks on the classifier itself: on pixels in their range, on embeddings in a box."""

    recipe: Recipe

    @property
    def name(self) -> str:
        """That of the class."""
        return self.recipe.name

    def candidates(
        self,
        victim: Victim,
        budget: Budget,
        generator: torch.Generator,
        known: Perturbed | None = None,  # noqa: ARG002
    ) -> Iterator[Perturbed]:
        """The one that it returns."""
        clean = victim.base.sample(0)
        reader = victim.classifier

        def logits(points: torch.Tensor) -> torch.Tensor:
            masses, positions = (part.expand(points.shape[:-1]) for part in (clean.masses, clean.positions))
            return reader.logits(TokenMeasure(points, masses, positions))

        box = PixelBox(clean, budget, reader.shape) if isinstance(reader, ImageClassifier) else BudgetBox(clean, budget)
        classifier = BoxedClassifier(box, logits)
        points = self.recipe.run(classifier, victim.label, generator, per_token=isinstance(budget, PerToken))
        yield victim.perturbed(victim.base, points[None] - victim.base.points, budget)

"""One input of a classifier under attack: its loss as something to climb, and what a displacement makes of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from robust_attn.attacks.ascent import Objective
from robust_attn.attacks.classifier_loss import loss_objective
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget
from robust_attn.observation import BudgetExceededError
from robust_attn.through.classifier import Classifier
from robust_attn.types import UserError

UNCHANGED = 1e-6
"""Largest relative difference of logits that counts as none where tokens are only written as several atoms."""


@dataclass(frozen=True, eq=False)
class Perturbed:
    """An input moved inside a budget around `base`, and what the classifier says to it; batches of one.

    `base` is the clean input, perhaps written with more atoms. `radius` is that of the budget.
    """

    base: TokenMeasure
    measure: TokenMeasure
    logits: Float[Tensor, "1 classes"]
    label: int
    radius: float

    @property
    def displacement(self) -> Float[Tensor, "1 atoms d"]:
        """How far every atom went."""
        return self.measure.points - self.base.points

    @property
    def prediction(self) -> int:
        """The class with the largest logit."""
        return int(self.logits.argmax(-1))

    @property
    def flipped(self) -> bool:
        """Whether that is another class than the label."""
        return self.prediction != self.label

    @property
    def loss(self) -> float:
        """Cross-entropy of the label."""
        return float(functional.cross_entropy(self.logits, torch.tensor([self.label])))

    @property
    def margin(self) -> float:
        """The largest logit of another class minus that of the label: positive where the prediction has flipped."""
        others = self.logits[0].clone()
        others[self.label] = -torch.inf
        return float(others.max() - self.logits[0, self.label])


@dataclass(frozen=True, eq=False)
class Victim:
    """A classifier and one clean input (a batch of one); the label is the class that the classifier gives it."""

    classifier: Classifier
    base: TokenMeasure
    label: int

    @classmethod
    def of(cls, classifier: Classifier, base: TokenMeasure) -> Victim:
        """With the classifier's own prediction as label."""
        with torch.no_grad():
            return cls(classifier, base, int(classifier.logits(base).argmax(-1)))

    def objective(self, base: TokenMeasure) -> Objective:
        """The loss at displacements of `base`, which is the clean input perhaps written with more atoms."""
        return loss_objective(self.classifier.logits, base, torch.tensor([self.label]))

    def perturbed(self, base: TokenMeasure, displacement: Float[Tensor, "1 atoms d"], budget: Budget) -> Perturbed:
        """The displacement projected into the budget, checked, and read by the classifier. Attacks are not trusted."""
        inside = budget.project(displacement, base)
        if not bool(budget.contains(inside, base).all()):
            raise BudgetExceededError(f"the projected displacement exceeds the {budget.kind} budget {budget.radius}")
        measure = base.with_points(base.points + inside)
        with torch.no_grad():
            return Perturbed(base, measure, self.classifier.logits(measure), self.label, budget.radius)

    def refuse_unless_unchanged(self, base: TokenMeasure) -> None:
        """The clean input written with more atoms must be the same input to the classifier."""
        with torch.no_grad():
            before, after = self.classifier.logits(self.base), self.classifier.logits(base)
        difference = float((after - before).abs().max() / before.abs().max())
        if not difference <= UNCHANGED:
            raise UserError(
                f"{self.classifier.model.name} notices when tokens are only written as several atoms (logits change by "
                f"{difference:.1e} relative), so mass cannot be split in it."
            )

"""One input of a classifier under attack: its loss as a target, and what a proposal makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from robust_attn.attacks.attack import Attack
from robust_attn.attacks.model_loss import ModelLoss
from robust_attn.attacks.target import Proposal
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget, Wasserstein
from robust_attn.observation import moved_inside
from robust_attn.through.classifier import Classifier
from robust_attn.types import UserError


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
        return float(functional.cross_entropy(self.logits, torch.tensor([self.label], device=self.logits.device)))

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

    def unperturbed(self) -> Perturbed:
        """What the classifier says to the clean input."""
        with torch.no_grad():
            return Perturbed(self.base, self.base, self.classifier.logits(self.base), self.label, 0.0)

    def target(self, known: Proposal | None = None) -> ModelLoss:
        """The loss of the label."""
        reader, label = self.classifier, torch.tensor([self.label], device=self.base.points.device)
        return ModelLoss(reader.logits, self.base, label, image=reader.image, called=reader.model.name, known=known)

    def strongest(self, attack: Attack, budget: Budget, generator: torch.Generator) -> Perturbed:
        """What the attack proposes."""
        _refuse_incomparable(attack, budget)
        return self.read(attack.propose(self.target(), budget, generator), budget)

    def candidates(
        self, attack: Attack, budget: Budget, generator: torch.Generator, known: Perturbed | None = None
    ) -> Iterator[Perturbed]:
        """All that it may propose, computed as they are asked for; `known` is from a larger budget."""
        _refuse_incomparable(attack, budget)
        start = None
        if known is not None:
            start = Proposal(known.base, known.measure.points, budget=replace(budget, radius=known.radius))
        for proposal in attack.candidates(self.target(start), budget, generator):
            yield self.read(proposal, budget)

    def read(self, proposal: Proposal, budget: Budget) -> Perturbed:
        """The proposal projected into its budget, checked, and read by the classifier. Attacks are not trusted."""
        kept = budget if proposal.budget is None else proposal.budget
        measure = moved_inside(proposal.base, proposal.points, kept)
        with torch.no_grad():
            return Perturbed(proposal.base, measure, self.classifier.logits(measure), self.label, kept.radius)


def _refuse_incomparable(attack: Attack, budget: Budget) -> None:
    if attack.copies > 1 and not isinstance(budget, Wasserstein):
        raise UserError(f"Pieces of a token share its budget in budget=wasserstein alone, not in {budget.kind}.")

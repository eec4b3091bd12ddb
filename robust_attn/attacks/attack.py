"""What an attack is: something that proposes points for the atoms of a measure. Everything else is the framework's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure, expect_measure, stack
from robust_attn.budget import Budget, expect_budget
from robust_attn.observation import Observation, observe


@dataclass(frozen=True, eq=False)
class Proposal:
    """Where an attack wants the atoms of `base` to go; `base` is the measure attacked, perhaps written with copies.

    `history` is the best output change known after each step, of every sample, and `gradients` how many gradients of
    the layer that took for each. An attack that is not a matter of degree says what `budget` it needs.
    """

    base: TokenMeasure
    points: Float[Tensor, "*batch n d"]
    history: tuple[Float[Tensor, "*batch"], ...] = field(default=())
    gradients: int = 0
    budget: Budget | None = None

    def sample(self, index: int) -> Proposal:
        """The same for one sample alone."""
        history = tuple(values[index] for values in self.history)
        return replace(self, base=self.base.sample(index), points=self.points[index], history=history)


@dataclass(frozen=True, eq=False)
class AttackResult:
    """An attack's outcome after the framework projected, checked and measured it."""

    attack: str
    copies: int
    observation: Observation
    history: tuple[Float[Tensor, "*batch"], ...]
    gradients: int
    budget: Budget

    @property
    def measure(self) -> TokenMeasure:
        """The perturbed measure."""
        return self.observation.measure


class Attack(ABC):
    """Proposes a perturbation inside a budget that moves the layer's output far. Sees no bounds, measures nothing."""

    name: ClassVar[str]
    own_radius: ClassVar[bool] = False
    """Whether it needs a radius of its own, and so one for each sample: such samples are best attacked one by one."""

    @property
    def any_masses(self) -> bool:
        """Whether the masses of the atoms it proposes are its own choice, beyond equal parts of the tokens."""
        return False

    @property
    def copies(self) -> int:
        """Atoms per token in the measures it proposes."""
        return 1

    @abstractmethod
    def propose(
        self, layer: AttentionLayer, measure: TokenMeasure, budget: Budget, generator: torch.Generator
    ) -> Proposal:
        """Points for the atoms of the batched measure, or of the same measure written with copies."""

    @final
    def __call__(
        self,
        layer: AttentionLayer,
        measure: TokenMeasure,
        budget: Budget,
        *,
        generator: torch.Generator | None = None,
    ) -> AttackResult:
        """Propose, then let the framework project into the budget, check, and measure; one sample or a batch."""
        expect_measure(measure)
        expect_budget(budget)
        generator = torch.Generator().manual_seed(0) if generator is None else generator
        alone = measure.points.dim() == 2
        proposal = self.propose(layer, stack([measure]) if alone else measure, budget, generator)
        proposal = proposal.sample(0) if alone else proposal
        budget = budget if proposal.budget is None else proposal.budget
        observation = observe(layer, proposal.base, proposal.points, budget)
        return AttackResult(self.name, self.copies, observation, proposal.history, proposal.gradients, budget)

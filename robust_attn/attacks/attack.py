"""What an attack is: something that proposes points for the atoms of a measure. Everything else is the framework's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attacks.output_change import OutputChange
from robust_attn.attacks.target import Proposal, Steps, Target
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure, expect_measure, stack
from robust_attn.budget import Budget, expect_budget
from robust_attn.observation import Observation, observe
from robust_attn.types import as_html


@dataclass(frozen=True, eq=False)
class AttackResult:
    """An attack's outcome on a layer after the framework projected, checked and measured it."""

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

    def __repr__(self) -> str:
        return f"AttackResult({self.attack!r}, {self.copies} copies, gain {self._told(self.observation.gain)})"

    def _repr_html_(self) -> str:
        seen = self.observation
        facts = {"input change": seen.input_change, "output change": seen.output_change, "gain": seen.gain}
        return as_html(f"Attack {self.attack}", {name: self._told(value) for name, value in facts.items()})

    @staticmethod
    def _told(values: Float[Tensor, "*batch"]) -> str:
        return ", ".join(f"{value:.6g}" for value in values.flatten().tolist())


class Attack(ABC):
    """Proposes a perturbation inside a budget that makes a target large. Sees no bounds, measures nothing."""

    name: ClassVar[str]
    own_radius: ClassVar[bool] = False
    """Whether it needs a radius of its own, and so one for each sample: such samples are best attacked one by one."""

    @property
    def any_masses(self) -> bool:
        """Whether the masses of the atoms it proposes are its own choice, beyond equal pieces of the tokens."""
        return False

    @property
    def context_length(self) -> float | None:
        """Of how many tokens one is the lightest piece that it may write; None where it does not split."""
        return None

    def in_context(self, longest: int | None) -> Attack:  # noqa: ARG002
        """The same attack on a model that reads at most so many tokens."""
        return self

    @property
    def copies(self) -> int:
        """Atoms per token in the measures it proposes."""
        return 1

    @property
    def moving(self) -> Attack | None:
        """The attack that does the same without splitting mass, None where this one does not split."""
        return None

    @abstractmethod
    def propose(self, target: Target, budget: Budget, generator: torch.Generator) -> Proposal:
        """Points for the atoms of the target's measure, or of the same measure written with copies."""

    def candidates(self, target: Target, budget: Budget, generator: torch.Generator) -> Iterator[Proposal]:
        """Everything that `propose` chooses from, each as soon as it is known: who looks for a flip may stop early."""
        yield self.propose(target, budget, generator)

    @final
    def __call__(
        self,
        layer: AttentionLayer,
        measure: TokenMeasure,
        budget: Budget,
        *,
        generator: torch.Generator | None = None,
        on_step: Callable[[], None] | None = None,
    ) -> AttackResult:
        """Propose, then let the framework project into the budget, check, and measure; one sample or a batch.

        `on_step` is called at every step of an ascent.
        """
        expect_measure(measure)
        expect_budget(budget)
        generator = torch.Generator().manual_seed(0) if generator is None else generator
        alone, steps = measure.points.dim() == 2, Steps(on_step)
        target = OutputChange(layer, stack([measure]) if alone else measure, steps)
        proposal = self.propose(target, budget, generator)
        proposal = proposal.sample(0) if alone else proposal
        budget = budget if proposal.budget is None else proposal.budget
        observation = observe(layer, proposal.base, proposal.points, budget)
        return AttackResult(self.name, self.copies, observation, proposal.history, steps.gradients, budget)

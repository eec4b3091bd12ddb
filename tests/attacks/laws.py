"""What every attack keeps to, on a layer and on a loss, in every budget. Subclass `AttackLaws` with an `attack`."""

from dataclasses import fields, replace
from functools import cache
from typing import ClassVar

import pytest
import torch

from robust_attn.attacks.attack import Attack
from robust_attn.attacks.baseline import RandomMove
from robust_attn.attacks.model_loss import ModelLoss
from robust_attn.attacks.output_change import OutputChange
from robust_attn.attacks.target import Proposal, Target
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import BUDGETS
from robust_attn.observation import moved_inside
from robust_attn.types import UserError
from tests.cases import Case, generator, random_layer, random_measure

RADIUS = 0.2
LAYER = random_layer(Case(), generator(0))
HEAD = torch.randn(6, 3, generator=generator(7), dtype=torch.float64)
TARGETS = ("layer", "loss")
KINDS = tuple(sorted(BUDGETS))


def reader(measure: TokenMeasure) -> torch.Tensor:
    """A classifier that reads measures: a layer, a weighted mean, a linear map."""
    return (measure.masses[..., None] * LAYER(measure).tanh()).sum(-2) @ HEAD


def tokens(samples: int = 2) -> TokenMeasure:
    measure = random_measure(Case(), generator(1))
    return TokenMeasure(measure.points[:samples], measure.masses[:samples], measure.positions[:samples])


def target_of(name: str, samples: int = 2) -> Target:
    measure = tokens(samples)
    return OutputChange(LAYER, measure) if name == "layer" else ModelLoss(reader, measure, reader(measure).argmax(-1))


@cache
def proposed(attack: Attack, name: str, kind: str) -> Proposal:
    return attack.propose(target_of(name), BUDGETS[kind](RADIUS), generator(2))


def reached(proposal: Proposal, name: str, kind: str) -> torch.Tensor:
    """The value at the points that the framework makes of a proposal."""
    budget = proposal.budget or BUDGETS[kind](RADIUS)
    measure = moved_inside(proposal.base, proposal.points, budget)
    with torch.no_grad():
        return target_of(name).values(proposal.base, budget)(measure.points - proposal.base.points)


class AttackLaws:
    """`refused` are the pairs of target and budget that the attack refuses, `weak` those where it may lose."""

    attack: ClassVar[Attack]
    refused: ClassVar[set[tuple[str, str]]] = set()
    weak: ClassVar[set[tuple[str, str]]] = set()

    def cases(self) -> list[tuple[str, str]]:
        return [(name, kind) for name in TARGETS for kind in KINDS if (name, kind) not in self.refused]

    def test_what_it_refuses_is_one_sentence(self):
        for name, kind in self.refused:
            with pytest.raises(UserError) as caught:
                proposed(self.attack, name, kind)
            assert str(caught.value).count(". ") == 0
            assert "\n" not in str(caught.value)

    def test_inside_the_budget_as_rounded_and_the_same_measure_before_it_moves(self):
        for name, kind in self.cases():
            proposal = proposed(self.attack, name, kind)
            budget = proposal.budget or BUDGETS[kind](RADIUS)
            assert self.attack.own_radius or budget.radius == RADIUS
            measure = moved_inside(proposal.base, proposal.points, budget)
            assert bool((budget.norm(measure.points - proposal.base.points, proposal.base) <= budget.radius).all())
            assert torch.equal(measure.masses, proposal.base.masses)
            torch.testing.assert_close(proposal.base.masses.sum(-1), torch.ones(2).double())
            torch.testing.assert_close(reader(proposal.base), reader(tokens()))

    def test_at_least_as_strong_as_random(self):
        for name, kind in self.cases():
            if (name, kind) not in self.weak:
                random = reached(proposed(RandomMove(4), name, kind), name, kind)
                assert bool((reached(proposed(self.attack, name, kind), name, kind) >= random * (1 - 1e-9)).all())

    def test_same_seed_same_result(self):
        for name, kind in self.cases():
            again = self.attack.propose(target_of(name), BUDGETS[kind](RADIUS), generator(2))
            assert torch.equal(again.points, proposed(self.attack, name, kind).points)
            assert torch.equal(again.base.masses, proposed(self.attack, name, kind).base.masses)

    def test_one_sample_is_attacked_as_in_a_batch_of_one(self):
        for kind in {kind for name, kind in self.cases() if name == "layer"}:
            measure, budget = tokens(1), BUDGETS[kind](RADIUS)
            many = self.attack(LAYER, measure, budget, generator=generator(2))
            alone = self.attack(LAYER, measure.sample(0), budget, generator=generator(2))
            assert torch.equal(alone.measure.points, many.measure.points[0])
            assert [float(value) for value in alone.history] == [float(value[0]) for value in many.history]
            assert alone.gradients == many.gradients
            assert float(alone.observation.output_change) == pytest.approx(float(many.observation.output_change[0]))

    def test_a_loss_of_several_samples_is_that_of_each(self):
        """Without random numbers, which a batch draws in another order."""
        still = {each.name: 0 for each in fields(self.attack) if each.name == "restarts"}
        attack = replace(self.attack, **still)
        for _, kind in (case for case in self.cases() if case[0] == "loss" and attack.name != "random"):
            budget = BUDGETS[kind](RADIUS)
            both, first = (attack.propose(target_of("loss", samples), budget, generator(2)) for samples in (2, 1))
            if attack.copies == 1:
                torch.testing.assert_close(both.points[0], first.points[0])
            assert len(both.points) == 2

    def test_steps_are_counted_and_told(self):
        calls = []
        for kind in {kind for name, kind in self.cases() if name == "layer"}:
            calls.clear()
            result = self.attack(LAYER, tokens(), BUDGETS[kind](RADIUS), on_step=lambda: calls.append(1))
            assert bool(calls) is bool(result.gradients)

from dataclasses import dataclass
from typing import ClassVar

import torch

from robust_attn.attacks.attack import Attack
from robust_attn.attacks.target import Proposal
from robust_attn.budget import Wasserstein
from tests.attacks.laws import KINDS, TARGETS, AttackLaws
from tests.cases import Case, generator, random_layer, random_measure


@dataclass(frozen=True)
class Cheat(Attack):
    """Proposes points far outside every budget."""

    name: ClassVar[str] = "cheat"

    def propose(self, target, budget, generator):  # noqa: ARG002
        return Proposal(target.measure, target.measure.points + 1e6)


class TestCheat(AttackLaws):
    attack = Cheat()
    weak: ClassVar = {(name, kind) for name in TARGETS for kind in KINDS}


def test_the_framework_projects_what_an_attack_proposes():
    measure = random_measure(Case(), generator(0))
    result = Cheat()(random_layer(Case(), generator(1)), measure, Wasserstein(0.01))
    assert (result.observation.input_change <= 0.01).all()
    assert torch.equal(result.measure.masses, measure.masses)
    assert result.copies == 1

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

from robust_attn.attacks.attack import Attack, Proposal
from robust_attn.attacks.baseline import RandomMove
from robust_attn.attacks.duplicate import Duplicate
from robust_attn.attacks.mass_split import Masses, MassSplit
from robust_attn.attacks.move import Move
from robust_attn.budget import Wasserstein
from tests.cases import Case, generator, random_layer, random_measure


@dataclass(frozen=True)
class Cheat(Attack):
    """Proposes points far outside every budget."""

    name: ClassVar[str] = "cheat"

    def propose(self, layer, measure, budget, generator):  # noqa: ARG002
        return Proposal(measure, measure.points + 1e6)


def test_the_framework_projects_what_an_attack_proposes():
    measure = random_measure(Case(), generator(0))
    result = Cheat()(random_layer(Case(), generator(1)), measure, Wasserstein(0.01))
    assert (result.observation.input_change <= 0.01 * (1 + 1e-9)).all()
    assert torch.equal(result.measure.masses, measure.masses)
    assert result.copies == 1


@pytest.mark.parametrize(
    "attack", [Move(5), MassSplit(2, 5), MassSplit(steps=5, masses=Masses.SLIVER), Duplicate(), RandomMove(3)], ids=str
)
def test_one_sample_without_a_batch_is_attacked_as_in_a_batch_of_one(attack):
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1), samples=1)
    many = attack(layer, measure, Wasserstein(0.1), generator=generator(2))
    alone = attack(layer, measure.sample(0), Wasserstein(0.1), generator=generator(2))
    assert torch.equal(alone.measure.points, many.measure.points[0])
    assert float(alone.observation.output_change) == pytest.approx(float(many.observation.output_change[0]))
    assert [float(value) for value in alone.history] == [float(value[0]) for value in many.history]

from typing import ClassVar

import torch

from robust_attn.attacks.baseline import NoAttack, RandomMove
from robust_attn.budget import Wasserstein
from tests.attacks.laws import KINDS, TARGETS, AttackLaws
from tests.cases import Case, generator, random_layer, random_measure


class TestRandomMove(AttackLaws):
    attack = RandomMove(4)


class TestNoAttack(AttackLaws):
    attack = NoAttack()
    weak: ClassVar = {(name, kind) for name in TARGETS for kind in KINDS}


def test_no_attack_changes_nothing():
    result = NoAttack()(random_layer(Case(), generator(0)), random_measure(Case(), generator(1)), Wasserstein(0.1))
    assert (result.observation.output_change == 0).all()
    assert torch.isnan(result.observation.gain).all()


def test_more_random_trials_are_never_weaker_and_spend_the_budget():
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1))
    few, many = (RandomMove(n)(layer, measure, Wasserstein(0.1), generator=generator(2)) for n in (2, 20))
    assert (many.observation.output_change >= few.observation.output_change).all()
    assert torch.allclose(many.observation.input_change, torch.full((2,), 0.1).double())

from typing import ClassVar

import pytest
import torch

from robust_attn.attacks.mass_split import Masses, MassSplit
from robust_attn.attacks.move import Move
from robust_attn.budget import Wasserstein
from robust_attn.types import UserError
from tests.attacks.laws import AttackLaws, reached, target_of
from tests.cases import CASES, generator, one_sample, random_layer, random_measure, scalar_layer, scalar_measure

UNEQUAL = {(name, kind) for name in ("layer", "loss") for kind in ("frobenius", "per_token")}


class TestEqualParts(AttackLaws):
    attack = MassSplit(2, 6)


class TestSomeTokens(AttackLaws):
    attack = MassSplit(3, 6, tokens=2)
    refused: ClassVar = UNEQUAL | {("loss", "wasserstein")}


class TestSlivers(AttackLaws):
    attack = MassSplit(steps=6, masses=Masses.SLIVER)
    refused: ClassVar = UNEQUAL


@pytest.mark.parametrize(
    ("a", "points", "masses", "moving", "splitting"),
    [(-8.0, [0.0, 1.0], None, 1.853, 2.0), (-100.0, [-1.0, 0.0], [0.01, 0.99], 0.1005, 0.99)],
)
def test_splitting_beats_moving_where_the_theory_says_so(a, points, masses, moving, splitting):
    """docs/proofs/splitting.md#examples, at a radius small enough for the local constants."""
    layer, measure, budget = scalar_layer(a), one_sample(scalar_measure(points, masses)), Wasserstein(1e-6)
    moved = Move()(layer, measure, budget, generator=generator(0)).observation
    split = MassSplit(2)(layer, measure, budget, generator=generator(0)).observation
    assert float(moved.gain) == pytest.approx(moving, abs=2e-3)
    assert float(split.gain) == pytest.approx(splitting, abs=2e-3)
    assert float(split.w2_gain) > 1.05 * float(moved.w2_gain)


@pytest.mark.parametrize("case", [case for case in CASES if case.masses != "copies"], ids=str)
@pytest.mark.parametrize("radius", [1e-3, 0.5])
def test_never_weaker_than_moving(case, radius):
    layer, measure, budget = random_layer(case, generator(0)), random_measure(case, generator(1)), Wasserstein(radius)
    moved = Move(10)(layer, measure, budget, generator=generator(2)).observation.output_change
    split = MassSplit(3, 10)(layer, measure, budget, generator=generator(2)).observation
    assert (split.output_change >= moved * (1 - 1e-9)).all()
    assert split.base.length == 3 * measure.length


@pytest.mark.parametrize("masses", list(Masses))
def test_never_weaker_than_moving_on_a_loss(masses):
    target, budget, attack = target_of("loss"), Wasserstein(0.3), MassSplit(2, 6, masses=masses)
    tried = list(attack.candidates(target, budget, generator(0)))
    assert {found.base.length for found in tried} == {4, 8}
    moved = attack.moving.propose(target, budget, generator(0))
    split = attack.propose(target, budget, generator(0))
    assert (reached(split, "loss", "wasserstein") >= reached(moved, "loss", "wasserstein") * (1 - 1e-12)).all()
    for found in tried:
        assert bool(budget.contains(found.displacement, found.base).all())
        torch.testing.assert_close(found.base.masses.sum(-1), torch.ones(2).double())


def test_no_copies_are_refused():
    with pytest.raises(UserError, match="at least 1"):
        MassSplit(0)

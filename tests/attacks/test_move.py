from typing import ClassVar

import pytest

from robust_attn.attacks.baseline import RandomMove
from robust_attn.attacks.move import Linear, Move
from robust_attn.budget import BUDGETS, Wasserstein
from robust_attn.spectral.lipschitz import local_lipschitz
from tests.attacks.laws import KINDS, AttackLaws
from tests.cases import CASES, generator, random_layer, random_measure
from tests.selection import at_first


class TestMove(AttackLaws):
    attack = Move(6)


class TestLinear(AttackLaws):
    attack = Linear()
    refused: ClassVar = {("loss", kind) for kind in KINDS}
    weak: ClassVar = {("layer", "per_token")}


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("turn", at_first(range(len(KINDS)), 1))
@pytest.mark.parametrize("radius", [1e-4, 0.3])
def test_move_is_at_least_linear_and_beats_random(case, turn, radius):
    """Every case with a budget of each kind by turns; in all turns with all."""
    budget = BUDGETS[KINDS[(CASES.index(case) + turn) % len(KINDS)]](radius)
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1))
    linear, move, random = (
        attack(layer, measure, budget, generator=generator(2)).observation.output_change
        for attack in (Linear(), Move(20), RandomMove(30))
    )
    assert (move >= linear * (1 - 1e-12)).all()
    assert (move >= random * (1 - 1e-6)).all()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_tiny_radius_attains_the_exact_local_constant(case):
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1))
    gain = Move(20)(layer, measure, Wasserstein(1e-6), generator=generator(2)).observation.gain
    exact = local_lipschitz(layer, measure).lower
    assert (gain >= 0.999 * exact).all()

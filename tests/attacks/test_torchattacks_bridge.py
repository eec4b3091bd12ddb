"""Every suitable attack of torchattacks runs on a layer, stays in the budget, and does something."""

from typing import ClassVar

import numpy as np
import pytest
import torch

from robust_attn.attacks.baseline import RandomMove
from robust_attn.attacks.move import Move
from robust_attn.attacks.output_change import OutputChange, change_logits
from robust_attn.attacks.torchattacks_bridge import Torchattack
from robust_attn.attacks.torchattacks_table import SUITABLE, Ball
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Frobenius, PerToken, Wasserstein
from robust_attn.observation import observe
from robust_attn.types import UserError
from tests.attacks.laws import AttackLaws
from tests.cases import Case, generator, random_layer, random_measure, scalar_layer, scalar_measure

BUDGETS = {"wasserstein": Wasserstein(0.1), "frobenius": Frobenius(0.1), "per_token": PerToken(0.1)}
IDLE = {"VANILA"}
ASCENT_L2 = ["APGD", "APGDT", "PGDL2", "PGDRSL2"]


def case(masses: str = "uniform"):
    g = generator(0)
    return random_layer(Case(masses=masses), g), random_measure(Case(masses=masses), g)


class TestTorchattack(AttackLaws):
    attack = Torchattack("PGDL2", steps=6)
    weak: ClassVar = {("layer", "per_token"), ("loss", "per_token")}


@pytest.mark.parametrize("name", SUITABLE)
def test_every_suitable_attack_runs_and_stays_in_every_budget(name):
    layer, measure = case("padded")
    for budget in BUDGETS.values():
        proposed = Torchattack(name, steps=2).propose(OutputChange(layer, measure), budget, generator(1))
        moved = proposed.points - measure.points
        assert bool(torch.isfinite(moved).all())
        if name != "GN":  # noise has no bound of its own: the framework projects it
            assert bool((budget.norm(moved, measure) <= budget.radius * (1 + 1e-6)).all())
        found = observe(layer, measure, proposed.points, budget)
        assert bool((found.input_change <= budget.radius).all())
        assert bool((found.output_change > 0).all()) is (name not in IDLE)


@pytest.mark.parametrize("name", ASCENT_L2)
@pytest.mark.parametrize("masses", ["uniform", "unequal"])
def test_ascents_in_l2_beat_random_moves_and_not_our_own(name, masses):
    """The box turns any masses into a round ball, so that attacks in L2 see the budget itself."""
    layer, measure = case(masses)
    budget = Wasserstein(0.1)
    found, random, move = (
        attack(layer, measure, budget, generator=generator(2)).observation.output_change
        for attack in (Torchattack(name, steps=30), RandomMove(16), Move(30))
    )
    assert bool((found > random).all())
    assert bool((found <= move * (1 + 1e-3)).all())


def test_apgd_solves_a_case_with_a_known_answer():
    """A = 0: the layer averages, |f(Y) - f(X)| = |mean of the displacement| <= its rms, with equality if all agree."""
    layer, measure = scalar_layer(0.0), scalar_measure([0.3, -1.0, 2.0])
    found = Torchattack("APGD", steps=50)(layer, measure, Wasserstein(0.2), generator=generator(0)).observation
    assert float(found.output_change) == pytest.approx(0.2, rel=1e-3)


@pytest.mark.parametrize("name", ["PGD", "OnePixel", "APGD"])
def test_same_seed_same_result_and_the_global_generators_are_left_alone(name):
    layer, measure = case()
    torch.manual_seed(5)
    np.random.seed(5)
    before, numbers = torch.get_rng_state(), np.random.get_state()[1].copy()
    results = [
        Torchattack(name, steps=3).propose(OutputChange(layer, measure), Wasserstein(0.1), generator(seed)).points
        for seed in (1, 1, 2)
    ]
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], numbers)


def test_gradients_are_counted():
    """VMIFGSM looks at five neighbours of every iterate: six gradients a step."""
    layer, measure = case()
    spent = {
        name: Torchattack(name, steps=7)(layer, measure, Frobenius(0.1), generator=generator(0)).gradients
        for name in ("PGDL2", "VMIFGSM", "FGSM", "GN")
    }
    assert spent == {"PGDL2": 7, "VMIFGSM": 42, "FGSM": 1, "GN": 0}


def test_one_sample_without_a_batch_axis():
    layer, measure = case()
    alone = Torchattack("PGDL2", steps=5)(layer, measure.sample(0), Frobenius(0.1), generator=generator(0))
    assert alone.observation.output_change.shape == ()
    assert alone.attack == "PGDL2"


def test_a_radius_of_zero_moves_nothing():
    layer, measure = case()
    found = Torchattack("MIFGSM", steps=2).propose(OutputChange(layer, measure), Frobenius(0.0), generator(0))
    assert torch.equal(found.points, measure.points)


def test_the_logit_of_changed_grows_with_the_change():
    layer, measure = case()
    sample, budget = measure.sample(0), Frobenius(0.1)
    direction = budget.sample(sample, generator(4))
    reference = layer(sample)
    for name in ("PGDL2", "APGD"):
        logits = change_logits(layer, sample, budget, SUITABLE[name], generator(0))
        points = torch.stack([sample.points + part * direction for part in (0.0, 0.25, 0.5, 1.0)])
        changes = [float(budget.norm(layer(sample.with_points(each)) - reference, sample)) for each in points]
        found = logits(points)
        assert changes == sorted(changes)
        assert bool((found[1:, 1] > found[:-1, 1]).all())
        fooled = (found.argmax(-1) == 1).tolist()
        assert fooled == [False, *[SUITABLE[name].must_fool] * 3]


def test_a_layer_that_is_constant_cannot_be_moved():
    layer = scalar_layer(1.0, v=0.0)
    for name in ("PGDL2", "MIFGSM", "APGD"):
        found = Torchattack(name, steps=3)(layer, scalar_measure([0.0, 1.0]), Wasserstein(0.1), generator=generator(0))
        assert float(found.observation.output_change) == 0.0


def test_wrong_settings():
    with pytest.raises(UserError, match="no attack 'PGDL3'"):
        Torchattack("PGDL3")
    with pytest.raises(UserError, match="step_size must be above 0, got 0"):
        Torchattack("PGD", step_size=0.0)


def test_attacks_of_either_ball_take_the_one_that_fits():
    """Per token the corners of a cube move every token by the radius, which the L2 ball does for one token only."""
    assert SUITABLE["APGD"].ball is Ball.EITHER
    layer, measure = case()
    moved = (
        Torchattack("APGD", steps=20)(layer, measure, PerToken(0.1), generator=generator(0)).observation.measure.points
        - TokenMeasure.uniform(measure.points).points
    )
    assert float(moved.norm(dim=-1).min()) > 0.05

import pytest
import torch

from robust_attn.attacks import output_change
from robust_attn.attacks.mass_split import MassSplit
from robust_attn.attacks.move import Move
from robust_attn.attacks.output_change import OutputChange
from robust_attn.budget import BUDGETS, Wasserstein
from tests.cases import Case, generator, random_layer, random_measure

LAYER = random_layer(Case(), generator(0))
MEASURE = random_measure(Case(), generator(1))


@pytest.mark.parametrize("kind", sorted(BUDGETS))
@pytest.mark.parametrize("radius", [1e-6, 0.2])
def test_a_search_in_single_precision_is_as_strong_and_its_values_are_exact(kind, radius, monkeypatch):
    budget, attack = BUDGETS[kind](radius), Move(steps=30, restarts=1)
    exact = attack(LAYER, MEASURE, budget, generator=generator(2))
    monkeypatch.setattr(output_change, "SINGLE_FROM", 0)
    found = attack(LAYER, MEASURE, budget, generator=generator(2))
    assert (found.observation.output_change >= exact.observation.output_change * (1 - 1e-5)).all()
    assert torch.allclose(found.history[-1], found.observation.output_change, rtol=1e-6)
    history = torch.stack(found.history)
    assert (history.diff(dim=0) >= 0).all()


def test_splitting_in_single_precision_is_not_weaker_than_moving(monkeypatch):
    monkeypatch.setattr(output_change, "SINGLE_FROM", 0)
    attack = MassSplit(steps=20, restarts=1)
    split = attack(LAYER, MEASURE, Wasserstein(0.2), generator=generator(2)).observation
    moved = attack.moving(LAYER, MEASURE, Wasserstein(0.2), generator=generator(2)).observation
    assert (split.output_change >= moved.output_change * (1 - 1e-12)).all()


def test_small_layers_and_those_in_single_precision_are_searched_as_they_are():
    assert OutputChange(LAYER, MEASURE).rough(MEASURE) is None
    single = random_layer(Case(), generator(0)).to(torch.float32)
    assert OutputChange(single, MEASURE.to(torch.float32)).rough(MEASURE.to(torch.float32)) is None


@pytest.mark.parametrize("single_from", [0, 2**18], ids=["single", "double"])
def test_where_all_is_linear_and_pieces_apart_are_far_behind_the_move_is_the_answer(single_from, monkeypatch):
    """Nobody climbs on the split measure, and the move is proposed with the values that led to it."""
    monkeypatch.setattr(output_change, "SINGLE_FROM", single_from)
    attack, budget = MassSplit(steps=40, restarts=1, masses="equal"), Wasserstein(1e-5)
    target = OutputChange(LAYER, MEASURE)
    moved = attack.moving.propose(target, budget, generator(2))
    (starts,) = target.splits(attack, moved, budget, generator(3))
    assert starts.fixed
    assert starts.history == moved.history
    (found,) = target.proposals(starts, steps=40)
    assert torch.allclose(target.values(found.base, budget)(found.displacement), moved.history[-1], rtol=1e-9)
    monkeypatch.setattr(output_change, "BEHIND", 0.0)
    (starts,) = target.splits(attack, moved, budget, generator(3))
    (climbed,) = target.proposals(starts, steps=40)
    assert torch.allclose(climbed.history[-1], found.history[-1], rtol=1e-4)


@pytest.mark.parametrize(("radius", "dtype"), [(1e-4, torch.float32), (3.0, torch.float64)])
def test_places_are_in_double_precision_where_the_way_up_may_be_long(radius, dtype, monkeypatch):
    """Searched in single precision either way; GPT-2 at radius 3 once lost 8 % by places in single precision."""
    monkeypatch.setattr(output_change, "SINGLE_FROM", 0)
    target, seen, ascend_all = OutputChange(LAYER, MEASURE), [], output_change.ascend_all

    def ascend(objective_at, base, budget, fields, *, steps, summit):
        seen.append((base.points.dtype, fields.dtype))
        return ascend_all(objective_at, base, budget, fields, steps=steps, summit=summit)

    monkeypatch.setattr(output_change, "ascend_all", ascend)
    (starts,) = target.moves(Wasserstein(radius), generator(2), random=1)
    list(target.ascents(starts, steps=3))
    assert starts.linear == (dtype is torch.float32)
    assert seen == [(dtype, dtype)]

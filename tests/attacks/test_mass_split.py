from typing import ClassVar

import pytest
import torch

from robust_attn.attacks.mass_split import Masses, MassSplit, in_pairs
from robust_attn.attacks.move import Move
from robust_attn.attacks.target import Proposal
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Wasserstein
from robust_attn.types import UserError
from tests.attacks.laws import AttackLaws, reached, target_of
from tests.cases import CASES, generator, one_sample, random_layer, random_measure, scalar_layer, scalar_measure

UNEQUAL = {(name, kind) for name in ("layer", "loss") for kind in ("frobenius", "per_token")}


class TestEqualPieces(AttackLaws):
    attack = MassSplit(2, 6, masses=Masses.EQUAL)


class TestBest(AttackLaws):
    attack = MassSplit(2, 4)


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
    split = MassSplit(2, masses=Masses.EQUAL)(layer, measure, budget, generator=generator(0)).observation
    assert float(moved.gain) == pytest.approx(moving, abs=2e-3)
    assert float(split.gain) == pytest.approx(splitting, abs=2e-3)
    assert float(split.w2_gain) > 1.05 * float(moved.w2_gain)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("copies", "radius", "gain"), [(3, 0.1, 2.280), (4, 1.0, 2.819), (4, 3.0, 2.713)])
def test_many_pieces_do_not_stop_at_the_first_summit(copies, radius, gain, seed):
    """Tokens (0, 1), A = -8: as much as the sixth highest of 200 random starts that all climb to the end, or more."""
    split, budget = MassSplit(copies, 60, 4, masses=Masses.EQUAL), Wasserstein(radius)
    found = split(scalar_layer(-8.0), one_sample(scalar_measure([0.0, 1.0])), budget, generator=generator(seed))
    assert float(found.observation.gain) >= gain - 1e-3


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


@pytest.mark.parametrize("context", [50.0, 1e7])
def test_the_best_split_is_the_stronger_one_and_no_part_is_lighter_than_the_context_allows(context):
    """x = (-1, 1), A = 8: a long context lets a sliver gain 1.6, a short one does not."""
    layer, measure, budget = scalar_layer(8.0), one_sample(scalar_measure([-1.0, 1.0])), Wasserstein(1e-3, 1.0)
    found = {
        masses: MassSplit(2, 10, masses=masses, context=context)(layer, measure, budget, generator=generator(0))
        for masses in Masses
    }
    gains = {masses: float(result.observation.output_change) for masses, result in found.items()}
    best = found[Masses.BEST].observation
    assert gains[Masses.BEST] >= max(gains.values()) * (1 - 1e-6)
    assert (gains[Masses.BEST] > 1.5 * gains[Masses.EQUAL]) == (context > 1e3)
    assert best.base.length == 4
    assert float(best.base.masses[best.base.present].min()) >= (1 - 1e-9) / context
    torch.testing.assert_close(best.base.masses.sum(-1), torch.ones(1).double())


def test_a_sliver_in_pairs_is_the_same_measure():
    """Token 1 gives up 0.1: (0.3, 0), (0.6, 0.1); positions and displacements go along, and padding stays."""
    base = TokenMeasure(
        torch.tensor([[[0.0], [1.0], [1.0]]]).double(),
        torch.tensor([[0.3, 0.6, 0.1]]).double(),
        torch.tensor([[0, 1, 1]]),
    )
    written = in_pairs(Proposal(base, base.points + torch.tensor([[[0.0], [0.5], [7.0]]]).double()), 2)
    assert written.base.points[0, :, 0].tolist() == [0.0, 0.0, 1.0, 1.0]
    assert written.base.masses[0].tolist() == pytest.approx([0.3, 0.0, 0.6, 0.1])
    assert written.base.positions[0].tolist() == [0, 0, 1, 1]
    assert written.displacement[0, :, 0].tolist() == [0.0, 0.0, 0.5, 7.0]


def test_a_context_in_which_no_token_is_two_parts_leaves_moving():
    layer, measure, budget = (
        random_layer(CASES[0], generator(0)),
        random_measure(CASES[0], generator(1)),
        Wasserstein(0.1),
    )
    moved = Move(6)(layer, measure, budget, generator=generator(2)).observation
    split = MassSplit(2, 6, context=5)(layer, measure, budget, generator=generator(2)).observation
    assert (split.output_change >= moved.output_change * (1 - 1e-9)).all()
    assert float(split.base.masses[split.base.present].min()) == pytest.approx(0.25)


def test_the_context_is_the_models_own_but_at_least_8192():
    assert MassSplit().context_length == 8192
    assert MassSplit().in_context(512).context_length == 8192
    assert MassSplit().in_context(None).context_length == 8192
    assert MassSplit().in_context(131072).context_length == 131072
    assert MassSplit(context=100).in_context(131072).context_length == 100

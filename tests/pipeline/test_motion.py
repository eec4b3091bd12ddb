"""Motion per token, against sums written out by hand and against every layout of atoms that attacks use."""

from __future__ import annotations

import pytest
import torch

from robust_attn.attacks.copies import cut, equal_parts
from robust_attn.attacks.duplicate import Duplicate, repetition
from robust_attn.attacks.mass_split import Masses, MassSplit
from robust_attn.attacks.move import Move
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Wasserstein
from robust_attn.observation import Observation
from robust_attn.pipeline.motion import MOST_TOKENS, motion_parts, token_motion
from robust_attn.records.parts import Motion
from tests.cases import Case, generator, random_layer, random_measure


def moved(base: TokenMeasure, points: torch.Tensor) -> Observation:
    """An observation of which only the two measures matter here."""
    nothing = torch.zeros(base.masses.shape[:-1], dtype=base.masses.dtype)
    return Observation(base, base.with_points(points), *(nothing,) * 5)


def plane(*places: tuple[float, float]) -> torch.Tensor:
    return torch.tensor([places], dtype=torch.float64)


def test_equal_parts_by_hand() -> None:
    """Token 0 stays, pieces of token 1 go by (3, 0) and (0, -4): rms sqrt((9 + 16) / 2), farthest 4, half the token.

    Their mean goes by (3/2, -2), so each piece is 5/2 away from it.
    """
    split = equal_parts(TokenMeasure.uniform(plane((0, 0), (1, 1))), 2)
    found = token_motion(moved(split.base, plane((0, 0), (0, 0), (4, 1), (1, -3))), 2)
    assert found.rms.tolist() == [[0.0, pytest.approx(12.5**0.5)]]
    assert found.apart.tolist() == [[0.0, 2.5]]
    assert found.farthest.tolist() == [[0.0, 4.0]]
    assert found.share.tolist() == [[0.5, 0.5]]
    assert found.parts.tolist() == [[2, 2]]


def test_a_sliver_belongs_to_the_token_it_was_cut_from() -> None:
    """A hundredth of token 1 (mass 1/2) goes 10 far, the rest stays: rms 10 sqrt(0.01) = 1, all but 0.1 of it apart."""
    split = cut(TokenMeasure.uniform(plane((0, 0), (1, 1))), torch.tensor([1]), torch.tensor([0.005]).double())
    found = token_motion(moved(split.base, plane((0, 0), (1, 1), (1, 11))), 2)
    assert found.rms[0].tolist() == pytest.approx([0.0, 1.0])
    assert found.apart[0].tolist() == pytest.approx([0.0, (1 - 0.1**2) ** 0.5])
    assert found.farthest[0].tolist() == [0.0, 10.0]
    assert found.share[0].tolist() == pytest.approx([1.0, 0.01])
    assert found.parts[0].tolist() == [1, 2]


def test_a_repetition_moves_every_token_but_the_one_repeated() -> None:
    """Two tokens, 5 apart, the first once more: half of the mass 1/2 becomes a third, so a third of token 1 leaves."""
    sample = TokenMeasure.uniform(plane((0, 0), (3, 4))).sample(0)
    base, points = repetition(sample, 0, 1)
    one = TokenMeasure(base.points[None], base.masses[None], base.positions[None])
    found = token_motion(moved(one, points[None]), 2)
    assert found.farthest[0].tolist() == [0.0, 5.0]
    assert found.share[0].tolist() == pytest.approx([1.0, 1 / 3])
    assert found.parts[0].tolist() == [1, 2]


@pytest.mark.parametrize(
    "attack",
    [Move(steps=3), MassSplit(steps=3), MassSplit(steps=3, tokens=2), MassSplit(steps=3, masses=Masses.SLIVER)],
)
def test_the_tokens_together_moved_as_far_as_the_measure(attack: Move | MassSplit) -> None:
    layer, measure = random_layer(Case(), generator(1)), random_measure(Case(), generator(2))
    seen = attack(layer, measure, Wasserstein(0.1)).observation
    found = token_motion(seen, 4)
    assert torch.allclose(found.rms.square().mean(-1).sqrt(), seen.input_change)
    assert bool((found.farthest >= found.rms * (1 - 1e-12)).all())
    assert bool((found.apart <= found.rms * (1 + 1e-12)).all())
    assert bool((found.apart[found.parts == 1] < 1e-12).all())
    assert int(found.parts.sum()) == int(seen.base.present.sum())


def test_duplicates_are_counted_in_their_own_layout() -> None:
    layer, measure = random_layer(Case(), generator(1)), random_measure(Case(), generator(2), samples=1)
    seen = Duplicate()(layer, measure, Wasserstein(1.0))
    (fields,) = motion_parts(seen.observation, 4)
    assert fields is not None
    assert sorted(fields.parts) == [1, 2, 2, 2]
    assert [value == 0 for value in fields.rms] == [parts == 1 for parts in fields.parts]


def test_padding_does_not_move_and_fields_are_short() -> None:
    measure = TokenMeasure.padded(plane((0, 0), (1, 1)), torch.tensor([1]))
    assert motion_parts(moved(measure, plane((1 / 3, 0), (9, 9))), 2) == [
        Motion(rms=(0.3333, 0.0), apart=(0.0, 0.0), farthest=(0.3333, 0.0), share=(1.0, 0.0), parts=(1, 0))
    ]


def test_what_is_not_finite_is_null_and_long_samples_are_left_out() -> None:
    measure = TokenMeasure.uniform(plane((0, 0)))
    (fields,) = motion_parts(moved(measure, plane((float("nan"), 0))), 1)
    assert fields is not None
    assert fields.rms == (None,)
    assert motion_parts(moved(measure, plane((0, 0))), MOST_TOKENS + 1) == [None]


def test_a_position_that_no_token_has_is_refused_and_recorded_as_unknown() -> None:
    seen = moved(TokenMeasure.uniform(plane((0, 0), (1, 1))), plane((0, 0), (1, 1)))
    with pytest.raises(ValueError, match=r"positions must lie in 0\.\.0, got 0\.\.1"):
        token_motion(seen, 1)
    assert motion_parts(seen, 1) == [None]

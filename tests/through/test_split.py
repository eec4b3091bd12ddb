"""Splitting through a model: never weaker than moving, and what slivers weigh."""

import pytest
import torch

from robust_attn.attacks.mass_split import Masses
from robust_attn.attacks.sliver import SMALLEST_MASS
from robust_attn.budget import Frobenius, Wasserstein
from robust_attn.through.split import SplitThrough, with_slivers
from robust_attn.types import UserError
from tests.cases import generator
from tests.through.cases import image_victim, text_victim


@pytest.mark.parametrize("masses", list(Masses))
@pytest.mark.parametrize("sample", [0, 1])
def test_never_weaker_than_moving_and_in_the_budget(masses, sample):
    victim, budget = text_victim(sample), Wasserstein(0.3)
    attack = SplitThrough(2, 6, 1, masses)
    moved = attack.moving.strongest(victim, budget, generator(0))
    tried = list(attack.candidates(victim, budget, generator(0)))
    assert max(found.loss for found in tried) >= moved.loss
    assert {found.base.length for found in tried} == {5, 10}
    for found in tried:
        assert bool(budget.contains(found.displacement, found.base).all())
        torch.testing.assert_close(found.base.masses.sum(), torch.tensor(1.0).double())


def test_slivers_stay_in_the_support():
    victim = text_victim()
    largest = float(victim.base.radius)
    for found in SplitThrough(2, 4, 0, Masses.SLIVER).candidates(victim, Wasserstein(0.1), generator(0)):
        if found.base.length > victim.base.length:
            assert float(found.measure.radius) <= largest * (1 + 1e-9)


def test_slivers_lose_mass_with_the_budget_and_keep_their_way():
    """From radius 0.2 to 0.1: a quarter of the mass, the same displacement of the slivers, half that of the rest."""
    victim = text_victim()
    tried = SplitThrough(2, 3, 0, Masses.SLIVER).candidates(victim, Wasserstein(0.2), generator(0))
    known = next(found for found in tried if found.base.length > victim.base.length)
    first = next(iter(SplitThrough(2, 3, 0, Masses.SLIVER).candidates(victim, Wasserstein(0.1), generator(0), known)))
    torch.testing.assert_close(first.base.masses[:, 1::2], known.base.masses[:, 1::2] / 4)
    torch.testing.assert_close(first.displacement[:, 1::2], known.displacement[:, 1::2], rtol=1e-2, atol=1e-6)
    torch.testing.assert_close(first.displacement[:, ::2], known.displacement[:, ::2] / 2, rtol=1e-2, atol=1e-6)


def test_with_slivers():
    """Masses (1/5)(3/4) and (1/5)(1/4), in turn; no part below SMALLEST_MASS."""
    base = text_victim().base
    written = with_slivers(base, 0.25)
    assert written.masses[0].tolist() == pytest.approx([0.15, 0.05] * 5)
    assert torch.equal(written.positions[0], torch.arange(5).repeat_interleave(2))
    assert float(with_slivers(base, 0.0).masses.min()) == pytest.approx(SMALLEST_MASS)


def test_what_cannot_be_split():
    with pytest.raises(UserError, match="budget=wasserstein alone, not in frobenius"):
        SplitThrough().strongest(text_victim(), Frobenius(0.1), generator(0))
    with pytest.raises(UserError, match="attack=torchattacks"):
        SplitThrough().strongest(image_victim(), Wasserstein(0.1), generator(0))
    with pytest.raises(UserError, match=r"leave attack.copies at 2, got 3"):
        SplitThrough(3, masses=Masses.SLIVER)

"""The loss as a target: its values are torch's, what is known comes first, and slivers weigh what they should."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from robust_attn.attacks.baseline import RandomMove
from robust_attn.attacks.mass_split import Masses, MassSplit
from robust_attn.attacks.model_loss import ModelLoss, with_slivers
from robust_attn.attacks.move import Move
from robust_attn.attacks.settings import SMALLEST_MASS
from robust_attn.attacks.torchattacks_bridge import Torchattack
from robust_attn.budget import Frobenius, Wasserstein
from robust_attn.types import UserError
from tests.attacks.laws import reader, target_of, tokens
from tests.cases import Case, generator, random_measure
from tests.through.cases import image_victim, text_victim

LABELS = torch.tensor([2, 0])
SLIVERS = MassSplit(2, 3, 0, masses=Masses.SLIVER)


def test_the_loss_and_its_gradient_are_those_of_torch():
    measure, budget = random_measure(Case(), generator(0)), Frobenius(1.0)
    displacement = torch.randn(measure.points.shape, generator=generator(1), dtype=torch.float64)
    points = (measure.points + displacement).requires_grad_(True)
    expected = functional.cross_entropy(reader(measure.with_points(points)), LABELS, reduction="none")
    (gradient,) = torch.autograd.grad(expected.sum(), points)
    for targeted, sign in ((False, 1), (True, -1)):
        target = ModelLoss(reader, measure, LABELS, targeted=targeted)
        loss, slope = target.objective(measure, budget)(displacement)
        assert torch.allclose(loss, sign * expected)
        assert torch.allclose(slope, sign * gradient)
        assert torch.allclose(target.values(measure, budget)(displacement), sign * expected)


def test_more_starts_are_never_weaker():
    few, more = (
        Move(5, restarts).propose(target_of("loss"), Wasserstein(0.3), generator(0)).history[-1] for restarts in (0, 2)
    )
    assert (more >= few).all()


def test_what_is_known_comes_first_and_is_a_start():
    target = text_victim().target()
    known = Move(8, 0).propose(target, Wasserstein(0.4), generator(0))
    again = Move(5, 0).candidates(replace(target, known=known), Wasserstein(0.2), generator(0))
    first, second, *_ = again
    torch.testing.assert_close(first.displacement, known.displacement / 2)
    assert second.history[-1] >= target.values(first.base, Wasserstein(0.2))(first.displacement)


def test_slivers_stay_in_the_support():
    target = text_victim().target()
    largest = float(target.measure.radius)
    tried = SLIVERS.candidates(target, Wasserstein(0.1), generator(0))
    split = [found for found in tried if found.base.length > target.measure.length]
    assert len(split) == 3
    assert all(float(found.base.with_points(found.points).radius) <= largest * (1 + 1e-9) for found in split)


def test_slivers_lose_mass_with_the_budget_and_keep_their_way():
    """From radius 0.2 to 0.1: a quarter of the mass, the same displacement of the slivers, half that of the rest."""
    target = text_victim().target()
    tried = SLIVERS.candidates(target, Wasserstein(0.2), generator(0))
    known = next(found for found in tried if found.base.length > target.measure.length)
    first = next(SLIVERS.candidates(replace(target, known=known), Wasserstein(0.1), generator(0)))
    torch.testing.assert_close(first.base.masses[:, 1::2], known.base.masses[:, 1::2] / 4)
    torch.testing.assert_close(first.displacement[:, 1::2], known.displacement[:, 1::2], rtol=1e-2, atol=1e-6)
    torch.testing.assert_close(first.displacement[:, ::2], known.displacement[:, ::2] / 2, rtol=1e-2, atol=1e-6)


def test_copies_known_from_a_larger_budget_go_half_as_far_in_half_of_it():
    target, attack = text_victim().target(), MassSplit(2, 3, 0)
    *_, known = attack.candidates(target, Wasserstein(0.2), generator(0))
    first, second, *_ = attack.candidates(replace(target, known=known), Wasserstein(0.1), generator(0))
    torch.testing.assert_close(first.displacement, known.displacement / 2)
    assert second.history[-1] >= target.values(first.base, Wasserstein(0.1))(first.displacement)


def test_masses_with_slivers_by_hand():
    """Masses (1/5)(3/4) and (1/5)(1/4), in turn; no piece below the lightest."""
    base = text_victim().base
    written = with_slivers(base, 0.25)
    assert written.masses[0].tolist() == pytest.approx([0.15, 0.05] * 5)
    assert torch.equal(written.positions[0], torch.arange(5).repeat_interleave(2))
    assert float(with_slivers(base, 0.0).masses.min()) == pytest.approx(SMALLEST_MASS)
    assert float(with_slivers(base, 0.0, lightest=1e-3).masses.min()) == pytest.approx(1e-3)
    each = with_slivers(tokens(), torch.tensor([0.5, 0.1]))
    assert each.masses[:, 1].tolist() == pytest.approx([0.125, 0.025])


def test_a_classifier_that_notices_copies_is_refused():
    target = text_victim().target()
    target.refuse_unless_unchanged(target.measure.split(2))
    moved = target.measure.with_points(target.measure.points * torch.linspace(1, 2, 16, dtype=torch.float64))
    with pytest.raises(UserError, match="bert notices when tokens are only written as several atoms"):
        replace(target, measure=moved).refuse_unless_unchanged(target.measure.split(2))


@pytest.mark.parametrize("attack", [Move(), MassSplit(), RandomMove()], ids=str)
def test_pixels_are_left_to_torchattacks(attack):
    with pytest.raises(UserError, match="attacked with attack=torchattacks"):
        attack.propose(image_victim().target(), Wasserstein(0.1), generator(0))


def test_what_cannot_be_done_with_a_loss():
    target = target_of("loss")
    with pytest.raises(UserError, match=r"leave attack\.tokens at all, got 3"):
        MassSplit(tokens=3).propose(target, Wasserstein(0.1), generator(0))
    with pytest.raises(UserError, match="they do not aim at one"):
        Torchattack().propose(replace(target, targeted=True), Wasserstein(0.1), generator(0))

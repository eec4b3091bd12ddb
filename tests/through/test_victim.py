"""One input under attack: in the budget, stronger than nothing, pixels stay pixels, and what was read counts."""

import pytest
import torch

from robust_attn.attacks.mass_split import Masses, MassSplit
from robust_attn.attacks.move import Move
from robust_attn.attacks.target import Proposal
from robust_attn.attacks.torchattacks_bridge import Torchattack
from robust_attn.budget import Frobenius, PerToken, Wasserstein
from robust_attn.through.victim import Perturbed
from robust_attn.types import UserError
from tests.cases import generator
from tests.through.cases import image_victim, text_victim

BUDGETS = [Wasserstein(0.3), Frobenius(0.3), PerToken(0.3)]


def clean_loss(victim):
    return victim.read(Proposal(victim.base, victim.base.points), Wasserstein(0.0)).loss


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("attack", [Move(6, 1), Torchattack("PGDL2", 6)])
def test_the_loss_grows_inside_the_budget(attack, budget):
    victim = text_victim()
    found = victim.strongest(attack, budget, generator(0))
    assert bool((budget.norm(found.displacement, victim.base) <= budget.radius).all())
    assert found.loss > clean_loss(victim)


@pytest.mark.parametrize("masses", list(Masses))
@pytest.mark.parametrize("sample", [0, 1])
def test_splitting_is_never_weaker_than_moving_and_in_the_budget(masses, sample):
    victim, budget = text_victim(sample), Wasserstein(0.3)
    attack = MassSplit(2, 6, 1, masses=masses)
    moved = victim.strongest(attack.moving, budget, generator(0))
    tried = list(victim.candidates(attack, budget, generator(0)))
    strongest = max(found.loss for found in tried)
    assert strongest >= moved.loss
    assert victim.strongest(attack, budget, generator(0)).loss == pytest.approx(strongest, rel=1e-12)
    assert {found.base.length for found in tried} == {5, 10}
    for found in tried:
        assert bool((budget.norm(found.displacement, found.base) <= budget.radius).all())
        torch.testing.assert_close(found.base.masses.sum(), torch.tensor(1.0).double())


def test_parts_of_a_token_compare_in_the_wasserstein_budget_alone():
    with pytest.raises(UserError, match="budget=wasserstein alone, not in frobenius"):
        text_victim().strongest(MassSplit(), Frobenius(0.1), generator(0))


@pytest.mark.parametrize(
    ("name", "budget"), [("PGD", PerToken(0.5)), ("PGDL2", Frobenius(2.0)), ("FGSM", PerToken(0.5))]
)
def test_pixels_stay_in_their_range_and_in_the_budget(name, budget):
    victim = image_victim()
    found = victim.strongest(Torchattack(name, 5), budget, generator(0))
    assert float(found.measure.points.abs().max()) <= 1 + 1e-12
    assert bool((budget.norm(found.displacement, victim.base) <= budget.radius).all())
    assert float(budget.norm(found.displacement, victim.base)) > 0.5 * budget.radius
    assert found.loss > clean_loss(victim)


def test_pgd_on_pixels_is_that_of_torchattacks_itself():
    """Same seed, same steps: PGD on images in [0, 1] with eps = radius / 2, mapped to [-1, 1]."""
    import torchattacks

    victim = image_victim()
    radius = 0.25

    class Plain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.device_of = torch.nn.Parameter(torch.zeros(()))

        def forward(self, images):
            points = (2 * images - 1).flatten(2).transpose(1, 2)
            return victim.classifier.logits(type(victim.base).uniform(points))

    found = victim.strongest(Torchattack("PGD", 4, 0.25), PerToken(radius), generator(9))
    seed = int(torch.randint(2**31, (), generator=generator(9)))
    image = (victim.base.points.transpose(1, 2).reshape(1, 1, 8, 8) + 1) / 2
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        theirs = torchattacks.PGD(Plain(), eps=radius / 2, alpha=radius / 8, steps=4)(
            image, torch.tensor([victim.label])
        )
    torch.testing.assert_close(found.measure.points.flatten(), (2 * theirs - 1).flatten())


def test_what_is_proposed_is_projected_into_the_budget_before_it_is_read():
    victim = text_victim()
    far = torch.randn(victim.base.points.shape, generator=generator(0), dtype=torch.float64)
    found = victim.read(Proposal(victim.base, victim.base.points + far), Wasserstein(0.1))
    assert float(Wasserstein(1.0).norm(found.displacement, victim.base)) == pytest.approx(0.1)
    torch.testing.assert_close(found.logits, victim.classifier.logits(found.measure))
    assert found.radius == 0.1


def test_margin_loss_and_flip_agree_on_hand_made_logits():
    """Logits (1, 3, 0), label 0: margin 3 - 1 = 2, loss log(e^1 + e^3 + e^0) - 1, prediction 1."""
    base = text_victim().base
    read = Perturbed(base, base, torch.tensor([[1.0, 3.0, 0.0]]).double(), 0, 0.0)
    assert read.margin == 2.0
    assert read.loss == pytest.approx(float(torch.logsumexp(torch.tensor([1.0, 3.0, 0.0]).double(), 0)) - 1)
    assert (read.prediction, read.flipped) == (1, True)
    right = Perturbed(base, base, torch.tensor([[1.0, 3.0, 0.0]]).double(), 1, 0.0)
    assert (right.margin, right.flipped) == (-2.0, False)


def test_the_label_is_the_prediction():
    victim = text_victim()
    assert victim.label == int(victim.classifier.logits(victim.base).argmax())

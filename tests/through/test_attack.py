"""Attacks on the loss: in the budget, stronger than nothing, and pixels stay pixels."""

import pytest
import torch

from robust_attn.attacks.torchattacks_bridge import Recipe
from robust_attn.budget import Frobenius, PerToken, Wasserstein
from robust_attn.through.attack import MoveThrough, TorchattacksThrough
from robust_attn.types import UserError
from tests.cases import generator
from tests.through.cases import image_victim, text_victim

BUDGETS = [Wasserstein(0.3), Frobenius(0.3), PerToken(0.3)]


def clean_loss(victim):
    return victim.perturbed(victim.base, torch.zeros_like(victim.base.points), Wasserstein(0.0)).loss


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("attack", [MoveThrough(6, 1), TorchattacksThrough(Recipe("PGDL2", 6))])
def test_the_loss_grows_inside_the_budget(attack, budget):
    victim = text_victim()
    found = attack.strongest(victim, budget, generator(0))
    assert bool(budget.contains(found.displacement, victim.base).all())
    assert found.loss > clean_loss(victim)


def test_more_starts_are_never_weaker():
    victim = text_victim()
    few, more = (MoveThrough(5, restarts).strongest(victim, Wasserstein(0.3), generator(0)) for restarts in (0, 2))
    assert more.loss >= few.loss


def test_what_is_known_comes_first_and_is_a_start():
    victim = text_victim()
    known = MoveThrough(8, 0).strongest(victim, Wasserstein(0.4), generator(0))
    first, second, *_ = MoveThrough(5, 0).candidates(victim, Wasserstein(0.2), generator(0), known)
    torch.testing.assert_close(first.displacement, known.displacement / 2)
    assert second.loss >= first.loss


@pytest.mark.parametrize(
    ("name", "budget"), [("PGD", PerToken(0.5)), ("PGDL2", Frobenius(2.0)), ("FGSM", PerToken(0.5))]
)
def test_pixels_stay_in_their_range_and_in_the_budget(name, budget):
    victim = image_victim()
    found = TorchattacksThrough(Recipe(name, 5)).strongest(victim, budget, generator(0))
    assert float(found.measure.points.abs().max()) <= 1 + 1e-12
    assert bool(budget.contains(found.displacement, victim.base).all())
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

    found = TorchattacksThrough(Recipe("PGD", 4, 0.25)).strongest(victim, PerToken(radius), generator(9))
    seed = int(torch.randint(2**31, (), generator=generator(9)))
    image = (victim.base.points.transpose(1, 2).reshape(1, 1, 8, 8) + 1) / 2
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        theirs = torchattacks.PGD(Plain(), eps=radius / 2, alpha=radius / 8, steps=4)(
            image, torch.tensor([victim.label])
        )
    torch.testing.assert_close(found.measure.points.flatten(), (2 * theirs - 1).flatten())


def test_pixels_are_left_to_torchattacks():
    with pytest.raises(UserError, match="attacked with attack=torchattacks"):
        MoveThrough().strongest(image_victim(), Frobenius(0.1), generator(0))

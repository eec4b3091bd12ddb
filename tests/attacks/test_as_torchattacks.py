"""Our attacks called as torchattacks' own are, beside a real one of torchattacks."""

import pytest
import torch
import torchattacks
from torch import nn
from torch.nn import functional

from robust_attn.attacks.as_torchattacks import MassSplitAttack, MoveAttack
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Frobenius, PerToken, Wasserstein
from robust_attn.types import UserError
from tests.attacks.classifiers import AttentionClassifier, PositionalClassifier
from tests.cases import generator


def case(samples: int = 6, tokens: int = 5):
    model = AttentionClassifier()
    inputs = 0.3 + 0.4 * torch.rand(samples, tokens, 8, generator=generator(1), dtype=torch.float64)
    return model, inputs, model(inputs).argmax(-1)


def loss(model, inputs, labels):
    return functional.cross_entropy(model(inputs), labels, reduction="none")


class Images(nn.Module):
    """The classifier for attacks that want a channel axis."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images):
        return self.model(images[:, 0])


@pytest.mark.parametrize("radius", [0.03, 0.1, 0.25])
@pytest.mark.parametrize("steps", [5, 20])
def test_at_least_as_strong_as_pgdl2_with_the_same_number_of_gradients(radius, steps):
    """Inputs are in [0.3, 0.7] and radii below 0.3, so torchattacks' clamp to [0, 1] never acts."""
    model, inputs, labels = case()
    ours = MoveAttack(model, radius=radius, steps=steps)(inputs, labels)
    theirs = torchattacks.PGDL2(Images(model), eps=radius, alpha=radius / 4, steps=steps)(inputs[:, None], labels)[:, 0]
    assert bool(((ours - inputs).flatten(1).norm(dim=1) <= radius * (1 + 1e-9)).all())
    assert bool((loss(model, ours, labels) > loss(model, inputs, labels)).all())
    assert bool((loss(model, ours, labels) >= loss(model, theirs, labels) * (1 - 1e-9)).all())


@pytest.mark.parametrize("budget", [Frobenius, Wasserstein, PerToken])
def test_any_budget_is_kept(budget):
    model, inputs, labels = case()
    found = MoveAttack(model, radius=0.2, steps=5, restarts=1, budget=budget)(inputs, labels)
    assert bool(budget(0.2).contains(found - inputs, TokenMeasure.uniform(inputs)).all())


def test_embeddings_are_not_clamped_to_the_unit_box():
    """torchattacks' PGD moves such inputs by more than 2 whatever its eps."""
    model, inputs, labels = case()
    inputs = inputs * 10 - 5
    found = MoveAttack(model, radius=0.01, steps=3)(inputs, labels)
    theirs = torchattacks.PGD(Images(model), eps=0.01)(inputs[:, None], labels)[:, 0]
    assert float((found - inputs).abs().max()) <= 0.01
    assert float((theirs - inputs).abs().max()) > 0.5


def test_the_number_of_steps_is_the_number_of_gradients():
    model, inputs, labels = case()
    calls = []
    model.register_forward_hook(lambda *_: calls.append(torch.is_grad_enabled()))
    MoveAttack(model, radius=0.2, steps=4)(inputs, labels)
    assert calls == [True] * 4


def test_conventions_of_torchattacks():
    model, inputs, labels = case()
    model.train()
    attack = MoveAttack(model, radius=0.2, steps=3)
    assert isinstance(attack, torchattacks.attack.Attack)
    assert "MoveAttack(" in repr(attack)
    assert attack.supported_mode == ["default", "targeted"]
    attack.set_mode_targeted_by_function(lambda _, labels: (labels + 1) % 3)
    found = attack(inputs, labels)
    assert model.training
    target = (labels + 1) % 3
    assert bool((loss(model, found, target) < loss(model, inputs, target)).all())
    both = torchattacks.MultiAttack([attack, MoveAttack(model, radius=0.4, steps=3)])
    assert both(inputs, labels).shape == inputs.shape


def test_images_are_taken_as_they_are():
    model, inputs, labels = case()
    found = MoveAttack(Images(model), radius=0.2, steps=4)(inputs[:, None], labels)
    torch.testing.assert_close(found[:, 0], MoveAttack(model, radius=0.2, steps=4)(inputs, labels))


def test_splitting_is_never_weaker_than_moving():
    model, inputs, labels = case()
    moved = MoveAttack(model, radius=0.3, steps=10, restarts=1, budget=Wasserstein)(inputs, labels)
    split = MassSplitAttack(model, radius=0.3, steps=10)(inputs, labels)
    assert split.shape == (6, 10, 8)
    base = TokenMeasure.uniform(inputs).split(2)
    assert bool(Wasserstein(0.3).contains(split - base.points, base).all())
    gain = loss(model, split, labels) - loss(model, moved, labels)
    assert bool((gain >= -1e-12).all())


class Spread(nn.Module):
    """Logits (0, variance over the tokens)."""

    def __init__(self) -> None:
        super().__init__()
        self.nothing = nn.Parameter(torch.zeros(()))

    def forward(self, tokens):
        variance = tokens.var(dim=1, correction=0).sum(-1)
        return torch.stack([torch.zeros_like(variance), variance], dim=-1)


def test_splitting_wins_where_moving_can_do_nothing():
    """One token: the variance stays zero however it moves. Halves at x + r and x - r have variance r^2 = 0.09."""
    inputs, labels = torch.full((2, 1, 1), 0.7, dtype=torch.float64), torch.tensor([0, 0])
    moved = MoveAttack(Spread(), radius=0.3, restarts=1)(inputs, labels)
    split = MassSplitAttack(Spread(), radius=0.3)(inputs, labels)
    assert Spread()(moved)[:, 1].tolist() == [0.0, 0.0]
    assert Spread()(split)[:, 1].tolist() == pytest.approx([0.09, 0.09], rel=1e-6)


def test_a_classifier_that_sees_places_is_refused():
    _, inputs, labels = case()
    with pytest.raises(UserError, match="the classifier notices when tokens are only written"):
        MassSplitAttack(PositionalClassifier(), radius=0.3)(inputs, labels)
    with pytest.raises(UserError, match="copies must be at least 1"):
        MassSplitAttack(AttentionClassifier(), copies=0)

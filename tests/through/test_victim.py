import pytest
import torch

from robust_attn.budget import Wasserstein
from robust_attn.through.victim import Perturbed, Victim
from robust_attn.types import UserError
from tests.cases import generator
from tests.through.cases import text_victim


def test_a_displacement_is_projected_into_the_budget_before_it_is_read():
    victim = text_victim()
    far = torch.randn(victim.base.points.shape, generator=generator(0), dtype=torch.float64)
    found = victim.perturbed(victim.base, far, Wasserstein(0.1))
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


def test_a_classifier_that_notices_copies_is_refused():
    victim = text_victim()
    victim.refuse_unless_unchanged(victim.base.split(2))
    moved = victim.base.with_points(victim.base.points * torch.linspace(1, 2, 16, dtype=torch.float64))
    with pytest.raises(UserError, match="notices when tokens are only written as several atoms"):
        Victim(victim.classifier, moved, victim.label).refuse_unless_unchanged(victim.base.split(2))

"""The nearest flip by moving tokens: real, inside its radius, the known distance where there is one, and no weaker
than torchattacks."""

from functools import cache

import pytest
import torch

from robust_attn.attacks.torchattacks_bridge import Torchattack
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Frobenius, PerToken, Wasserstein
from robust_attn.through.classifier import Classifier
from robust_attn.through.flip import smallest_flip
from robust_attn.through.nearest import Nearest
from robust_attn.through.victim import Victim
from tests.cases import generator
from tests.through.cases import ids, text_classifier, text_victim

QUICK = {"steps": 8, "restarts": 0, "accuracy": 0.1}


def nearest(victim, budget=None, **options) -> Nearest:
    return Nearest(victim, Frobenius(0.0) if budget is None else budget, generator(0), **QUICK | options)


@cache
def found_by(kind) -> tuple:
    search = nearest(text_victim(), kind(0.0))
    return search.all_rows(), search.one_row(range(5))


@pytest.mark.parametrize("kind", [Frobenius, Wasserstein, PerToken])
def test_a_flip_is_real_and_inside_its_radius(kind):
    victim, (flip, (one, row)) = text_victim(), found_by(kind)
    for each in (flip, one):
        assert each.found.flipped
        assert int(victim.classifier.logits(each.found.measure).argmax()) != victim.label
        assert bool(kind(each.radius).contains(each.found.displacement, victim.base).all())
    still = torch.arange(5) != row
    assert float(one.found.displacement[0, still].abs().max()) == 0
    assert flip.radius <= one.radius * 1.01


def test_norms_of_the_same_flip_compare_as_they_must():
    """n = 5 equal masses: the rms radius is the Frobenius one over sqrt 5, to the accuracies of two searches."""
    assert found_by(Wasserstein)[0].radius == pytest.approx(found_by(Frobenius)[0].radius / 5**0.5, rel=0.2)
    assert found_by(PerToken)[1][0].radius == pytest.approx(found_by(Frobenius)[1][0].radius, rel=0.2)


class HalfSpace(Classifier):
    """Logits (<w, x>, 0) of the sum over all entries: the nearest flip is <w, x> / |w| away."""

    def __init__(self, weights):
        self.weights = weights

    def logits(self, measure):
        first = (measure.points * self.weights).sum((-2, -1))
        return torch.stack((first, torch.zeros_like(first)), dim=-1)

    def measure(self, batch):
        return TokenMeasure.uniform(batch)

    def at_layer(self, measure, points):
        raise NotImplementedError

    def network(self, length):
        raise NotImplementedError


@pytest.mark.parametrize("seed", range(3))
def test_the_distance_to_a_half_space(seed):
    weights = torch.randn(4, 3, generator=generator(seed), dtype=torch.float64)
    points = weights + 0.1 * torch.randn(4, 3, generator=generator(seed + 9), dtype=torch.float64)
    reader = HalfSpace(weights)
    victim = Victim.of(reader, reader.measure(points[None]))
    search = nearest(victim, accuracy=0.01)
    margin = float((weights * points).sum())
    assert margin / weights.norm() <= search.all_rows().radius <= 1.02 * margin / float(weights.norm())
    flip, row = search.one_row(range(4))
    alone = margin / float(weights.norm(dim=-1).max())
    if alone <= search._largest():
        assert alone <= flip.radius <= 1.02 * alone
        assert row == int(weights.norm(dim=-1).argmax())
    else:
        assert flip.found is None


@pytest.mark.parametrize("sample", [0, *(pytest.param(each, marks=pytest.mark.slow) for each in range(1, 4))])
def test_no_weaker_than_pgdl2_of_torchattacks_with_as_many_gradients(sample):
    """PGDL2 in the same bisection, with the steps per radius that spend at least as many gradients in all."""
    reader = text_classifier()
    victim = Victim.of(reader, reader.measure(ids(4)[sample : sample + 1]))
    search = nearest(victim)
    ours = search.all_rows()

    def by_pgd(steps: int):
        attack, g = Torchattack("PGDL2", steps), generator(1)

        def flip_at(radius, known):
            tries = victim.candidates(attack, Frobenius(radius), g, known)
            return next((found for found in tries if found.flipped), None)

        return smallest_flip(flip_at, start=ours.radius, largest=100.0, accuracy=0.1)

    steps = 10
    while (theirs := by_pgd(steps)).tried * steps < search.spent.gradients:
        steps *= 2
    assert ours.radius <= theirs.radius


def test_starts_that_are_known_to_be_good_are_used():
    """Along the direction of a flip already found one step is enough."""
    flip, _ = found_by(Frobenius)
    again = nearest(text_victim(), steps=1, restarts=0, directions=[flip.found.displacement[0]]).all_rows()
    assert again.radius <= 1.1 * flip.radius
    assert nearest(text_victim(), steps=1, restarts=0).all_rows().radius > again.radius


def test_without_rows_nothing_is_found():
    flip, row = nearest(text_victim()).one_row([])
    assert (flip.radius, row) == (None, None)

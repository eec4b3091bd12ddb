import pytest
import torch

from robust_attn.attacks.copies import cut
from robust_attn.attacks.sliver_field import SliverField
from robust_attn.budget import Wasserstein
from tests.cases import CASES, Case, generator, one_sample, random_layer, random_measure

UNPADDED = [case for case in CASES if case.masses in ("uniform", "unequal")]


@pytest.mark.parametrize("case", UNPADDED[::2], ids=str)
@pytest.mark.parametrize("mass", [1e-8, 0.01])
def test_the_change_is_that_of_the_layer(case, mass):
    """In L2 of the atoms, as the operator itself has it when the sliver is cut and sent."""
    layer, sample = random_layer(case, generator(0)), random_measure(case, generator(1)).sample(0)
    sources = torch.arange(sample.length)
    places = 2 * torch.randn(sample.length, sample.width, generator=generator(2), dtype=torch.float64)
    masses = torch.full((sample.length,), mass, dtype=torch.float64)
    found = SliverField.of(layer, sample).change(sources, masses, places)
    for source in range(sample.length):
        split = cut(one_sample(sample), sources[source : source + 1], masses[:1]).base
        sent = split.points.clone()
        sent[0, -1] = places[source]
        exact = Wasserstein(1.0).norm(layer(split.with_points(sent)) - layer(split), split)
        assert float(found[source]) == pytest.approx(float(exact), rel=1e-6)


def test_slopes_are_those_of_finite_differences():
    layer, sample = random_layer(Case(), generator(0)), random_measure(Case(), generator(1)).sample(0)
    field = SliverField.of(layer, sample)
    source, mass = torch.tensor([1]), torch.tensor([0.02]).double()
    place = torch.randn(1, sample.width, generator=generator(2), dtype=torch.float64)
    _, by_mass, by_place = field.slope(source, mass, place)
    step = 1e-6
    numeric = (field.change(source, mass + step, place) - field.change(source, mass - step, place)) / (2 * step)
    assert float(by_mass) == pytest.approx(float(numeric), rel=1e-5)
    for axis in range(sample.width):
        aside = step * torch.nn.functional.one_hot(torch.tensor([axis]), sample.width)
        numeric = (field.change(source, mass, place + aside) - field.change(source, mass, place - aside)) / (2 * step)
        assert float(by_place[0, axis]) == pytest.approx(float(numeric), rel=1e-4, abs=1e-8)


def test_blocks_cover_every_sliver_once():
    layer, sample = random_layer(Case(), generator(0)), random_measure(Case(), generator(1)).sample(0)
    field = SliverField.of(layer, sample)
    covered = [index for part in field.blocks(10) for index in range(*part.indices(10))]
    assert covered == list(range(10))

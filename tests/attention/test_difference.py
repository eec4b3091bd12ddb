import pytest
import torch

from robust_attn.attention.difference import Difference
from tests.cases import CASES, Case, generator, random_layer, random_measure

PLAIN = [case for case in CASES if Difference.at(random_layer(case, generator(0)), random_measure(case, generator(1)))]


@pytest.mark.parametrize("case", PLAIN, ids=str)
@pytest.mark.parametrize("size", [1e-6, 1e-2, 3.0])
def test_differences_and_gradients_have_six_digits_however_small_the_displacement(case, size):
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1))
    field = size * torch.randn(measure.points.shape, generator=generator(2), dtype=torch.float64)
    there = layer.linearize(measure.with_points(measure.points + field))
    found = Difference.at(layer, measure).moved(field)
    exact = there.value - layer(measure)
    assert (found.value.double() - exact).norm() <= 2e-5 * exact.norm() + 1e-13
    cotangent = torch.randn(exact.shape, generator=generator(3), dtype=torch.float64)
    gradient = there.vjp(cotangent)
    assert (found.vjp(cotangent.float()).double() - gradient).norm() <= 2e-5 * gradient.norm()


def test_several_displacements_at_once_are_each_by_itself():
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1))
    fields = 0.1 * torch.randn(3, *measure.points.shape, generator=generator(2), dtype=torch.float64)
    difference = Difference.at(layer, measure)
    each = torch.stack([difference.moved(field).value for field in fields])
    assert torch.allclose(difference.moved(fields).value, each, rtol=1e-5, atol=1e-7)


def test_weights_that_single_precision_cannot_hold_are_left_to_float64():
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1))
    assert Difference.at(layer, measure.with_points(1e60 * measure.points)) is None


def test_most_layers_have_one_and_those_with_sinks_or_norms_none():
    assert len(PLAIN) >= 5
    for case in CASES:
        layer = random_layer(case, generator(0))
        if layer.sinks is not None or layer.normed:
            assert Difference.at(layer, random_measure(case, generator(1))) is None

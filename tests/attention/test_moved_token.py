"""A layer's output as a function of one token, against the layer itself."""

import pytest
import torch

from robust_attn.attention.moved_token import MovedToken, strongest_displacement
from tests.cases import ADDED_CASES, MORE_CASES, Case, generator, random_layer, random_measure, windowed

KNOWN = [*MORE_CASES, *(case for case in ADDED_CASES if not case.sinks)]


@pytest.mark.parametrize("case", KNOWN, ids=str)
@pytest.mark.parametrize("window", [False, True])
def test_it_is_the_difference_of_two_outputs(case: Case, window: bool):
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1)).sample(0)
    layer = windowed(layer, case, generator(2)) if window else layer
    at = layer.linearize(measure)
    for token in measure.present.nonzero()[:, 0].tolist():
        displacement = torch.randn(measure.width, generator=generator(token), dtype=torch.float64)
        points = measure.points.clone()
        points[token] += displacement
        expected = (layer(measure.with_points(points)) - layer(measure))[measure.present]
        found = MovedToken.of(at, token).difference(displacement)[measure.present]
        assert (found - expected).abs().max() <= 1e-12


def test_a_small_displacement_loses_no_digits():
    case = Case(rotary=True)
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1)).sample(0)
    at, tangent = layer.linearize(measure), torch.zeros_like(measure.points)
    tangent[2] = torch.randn(measure.width, generator=generator(2), dtype=torch.float64)
    found = MovedToken.of(at, 2).difference(1e-12 * tangent[2]) / 1e-12
    others = torch.arange(measure.length) != 2
    assert (found - at.jvp(tangent))[others].abs().max() <= 1e-9


def test_the_search_finds_the_largest_singular_value_of_one_column_where_the_radius_is_small():
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1)).sample(0)
    at, reach = layer.linearize(measure), 1e-4
    moved = MovedToken.of(at, 1)
    displacement = strongest_displacement(moved, measure.masses, reach, steps=60)
    matrix = at.dense().unflatten(-1, (measure.length, -1))[:, 1].unflatten(0, (measure.length, -1))
    largest = torch.linalg.matrix_norm((measure.masses.sqrt()[:, None, None] * matrix).flatten(0, 1), 2)
    found = (measure.masses[:, None] * moved.difference(displacement) ** 2).sum().sqrt() / reach
    assert displacement.norm() <= reach * (1 + 1e-12)
    assert float(found) == pytest.approx(float(largest), rel=1e-3)

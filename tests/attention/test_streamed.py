"""Products that never keep the attention weights, against those that do."""

import numpy as np
import pytest
import torch

from robust_attn.attention import jacobian, streamed
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask, Window
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.streamed import seen_columns, tiles
from tests.cases import MORE_CASES, Case, generator, random_layer, random_measure, windowed


@pytest.fixture
def _streaming(monkeypatch):
    monkeypatch.setattr(jacobian, "STREAMED_ELEMENTS", 0)
    monkeypatch.setattr(jacobian, "STREAMED_LENGTH", 0)
    for name, size in (("TILE_ROWS", 3), ("TILE_COLUMNS", 2), ("EDGE_ROWS", 2), ("LINE", 1)):
        monkeypatch.setattr(streamed, name, size)


@pytest.mark.usefixtures("_streaming")
@pytest.mark.parametrize("case", MORE_CASES, ids=str)
@pytest.mark.parametrize("window", [False, True])
def test_values_and_both_products_are_those_of_kept_weights(case: Case, window: bool, monkeypatch):
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1))
    layer = windowed(layer, case, generator(2)) if window else layer
    here = layer.linearize(measure)
    monkeypatch.setattr(jacobian, "STREAMED_ELEMENTS", 2**25)
    there = layer.linearize(measure)
    assert here.streamed is not None
    assert there.kept is not None
    tangent = torch.randn(here.domain, generator=generator(3), dtype=torch.float64)
    cotangent = torch.randn(here.codomain, generator=generator(4), dtype=torch.float64)
    assert (here.value - there.value).abs().max() <= 1e-13
    assert (here.attention() - there.attention()).abs().max() <= 1e-13
    assert torch.allclose(here.log_normalizer, there.log_normalizer, rtol=0, atol=1e-13)
    assert (here.jvp(tangent) - there.jvp(tangent)).abs().max() <= 1e-13
    assert (here.vjp(cotangent) - there.vjp(cotangent)).abs().max() <= 1e-13


@pytest.mark.usefixtures("_streaming")
@pytest.mark.parametrize("case", MORE_CASES[::5], ids=str)
def test_means_of_rows_and_sums_of_columns_are_those_of_the_weights(case: Case):
    here = random_layer(case, generator(0)).linearize(random_measure(case, generator(1)))
    assert here.streamed is not None
    attention = here.attention().flatten(0, -3)
    fields = torch.randn(attention.shape[0], 2, attention.shape[-1], generator=generator(2), dtype=torch.float64)
    assert (here.streamed.row_means(fields) - attention @ fields.mT).abs().max() <= 1e-13
    sums = (fields[:, :1] @ attention)[:, 0]
    assert (here.streamed.column_sums(fields[:, 0]) - sums).abs().max() <= 1e-13


@pytest.mark.usefixtures("_streaming")
def test_gradients_through_a_layer_still_work():
    """What writes into memory in place has no derivative: where torch is asked for one, the other way is taken."""
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1))
    points = measure.points.clone().requires_grad_()
    layer(measure.with_points(points)).square().sum().backward()
    operator = layer.linearize(measure)
    assert points.grad is not None
    assert (points.grad - operator.vjp(2 * operator.value)).abs().max() <= 1e-12
    pushed = torch.func.jvp(lambda moved: layer(measure.with_points(moved)), (measure.points,), (measure.points,))[1]
    assert (pushed - operator.jvp(measure.points)).abs().max() <= 1e-12


@pytest.mark.usefixtures("_streaming")
@pytest.mark.parametrize("size", [1e4, 1e8, 1e12])
def test_outputs_stay_in_the_hull_whatever_the_logits(size: float):
    """Rows of attention sum to one although logits of order `size` err by size * eps: equal values stay as they are."""
    eye = torch.eye(2, dtype=torch.float64)
    layer = AttentionLayer.single_head(size * eye, torch.tensor([[0.0, 1.0]], dtype=torch.float64))
    points = torch.randn(1, 9, 2, generator=generator(0), dtype=torch.float64)
    points[..., 1] = 1.0
    assert (layer(TokenMeasure.uniform(points)) - 1).abs().max() <= 1e-14


@pytest.mark.parametrize("mask", [Mask.NONE, Mask.CAUSAL, Window(2), Window(1, 1)], ids=str)
@pytest.mark.parametrize("positions", [range(9), [0, 0, 1, 1, 1, 4, 5, 5, 7], [3, 1, 2, 0, 5, 4, 8, 7, 6]])
@pytest.mark.parametrize("rows", [slice(0, 4), slice(4, 7), slice(8, 9)])
def test_columns_outside_are_hidden_and_columns_inside_are_seen_by_all(mask, positions, rows):
    places = torch.tensor(list(positions))
    hidden = mask.hides(places[rows, None], places[None, :])
    hidden = torch.zeros(rows.stop - rows.start, 9, dtype=torch.bool) if hidden is None else hidden
    columns, surely = seen_columns(mask, places, rows)
    inside = torch.arange(9)
    assert hidden[:, (inside < columns.start) | (inside >= columns.stop)].all()
    assert not hidden[:, surely].any()
    assert columns.start <= surely.start <= surely.stop <= columns.stop


@pytest.mark.parametrize("sizes", [{}, {"TILE_ROWS": 3, "TILE_COLUMNS": 4, "EDGE_ROWS": 2, "LINE": 2}])
@pytest.mark.parametrize("mask", [Mask.NONE, Mask.CAUSAL, Window(2), Window(11), Window(1, 1)], ids=str)
@pytest.mark.parametrize("positions", [range(17), [0, 0, 1, 1, 1, 4, 5, 5, 7], [3, 1, 2, 0, 5, 4, 8, 7, 6]])
def test_every_pair_that_sees_each_other_is_in_one_tile_and_none_is_in_two(mask, positions, sizes, monkeypatch):
    for name, size in sizes.items():
        monkeypatch.setattr(streamed, name, size)
    places = torch.tensor(list(positions))
    hidden = mask.hides(places[:, None], places[None, :])
    seen = torch.ones(len(places), len(places), dtype=torch.bool) if hidden is None else ~hidden
    taken = torch.zeros_like(seen, dtype=torch.int64)
    for tile in tiles(mask, places):
        taken[tile.rows, tile.columns] += 1
        assert tile.edge or seen[tile.rows, tile.columns].all()
    assert taken.max() <= 1
    assert (taken[seen] == 1).all()


def test_powers_of_two_err_by_no_more_than_two_units():
    """What docs/proofs/rounding.md assumes of the library, against extended precision."""
    arguments = -60 * torch.rand(10_000, generator=generator(0), dtype=torch.float64)
    exact = np.exp2(arguments.numpy().astype(np.longdouble))
    assert np.abs(arguments.exp2().numpy() / exact - 1).max() <= 2 * np.finfo(np.float64).eps

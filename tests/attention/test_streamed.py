"""Products that never keep the attention weights, against those that do."""

import pytest
import torch

from robust_attn.attention import jacobian, streamed
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask, Window
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.streamed import seen_columns
from tests.cases import MORE_CASES, Case, generator, random_layer, random_measure, windowed


@pytest.fixture
def _streaming(monkeypatch):
    monkeypatch.setattr(jacobian, "STREAMED_ELEMENTS", 0)
    monkeypatch.setattr(jacobian, "STREAMED_LENGTH", 0)
    monkeypatch.setattr(streamed, "BLOCK_ENTRIES", 12)


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

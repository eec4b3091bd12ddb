from dataclasses import replace

import pytest
import torch

from robust_attn.attention import jacobian as module
from robust_attn.attention import streamed
from robust_attn.attention.jacobian import LayerJacobian
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import visible
from robust_attn.attention.measure import TokenMeasure
from tests.attention.laws import JacobianLaws
from tests.cases import CASES, EVERY_CASE, Case, generator, random_layer, random_measure, windowed


class TestLayerJacobian(JacobianLaws):
    def make(self, case, g):
        layer, measure = random_layer(case, g), random_measure(case, g)
        return layer.linearize(measure), lambda points: layer(measure.with_points(points)), measure.points


class TestLayerJacobianWithWindowAndTable(JacobianLaws):
    """A sliding window, causal or to both sides, and rotations by a table that are no multiples of the position."""

    def make(self, case, g):
        layer, measure = windowed(random_layer(case, g), case, g), random_measure(case, g)
        return layer.linearize(measure), lambda points: layer(measure.with_points(points)), measure.points


class TestLayerJacobianInRowBlocks(JacobianLaws):
    """Attention recomputed block by block never kept; streamed where the layer has nothing that this does not know."""

    @pytest.fixture(autouse=True)
    def _small_blocks(self, monkeypatch):
        monkeypatch.setattr(module, "BLOCK_ELEMENTS", 8)
        monkeypatch.setattr(module, "KEPT_ELEMENTS", 0)
        monkeypatch.setattr(module, "STREAMED_ELEMENTS", 0)
        monkeypatch.setattr(module, "STREAMED_LENGTH", 0)
        for name, size in (("TILE_ROWS", 3), ("TILE_COLUMNS", 2), ("EDGE_ROWS", 2), ("LINE", 1)):
            monkeypatch.setattr(streamed, name, size)

    def make(self, case, g):
        layer, measure = random_layer(case, g), random_measure(case, g)
        operator = layer.linearize(measure)
        assert operator.kept is None
        assert (operator.streamed is None) == (case.sinks or case.position_bias)
        assert sum(1 for _ in operator.attention_blocks()) > 1
        return operator, lambda points: layer(measure.with_points(points)), measure.points


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("block", [1, 3, 1000])
def test_blocks_do_not_change_the_value(case: Case, block: int):
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1))
    whole = LayerJacobian.at(layer, measure).value
    assert (LayerJacobian.at(layer, measure, block=block).value - whole).abs().max() <= 1e-14


@pytest.mark.parametrize("case", EVERY_CASE, ids=str)
@pytest.mark.parametrize("window", [False, True])
def test_a_column_is_that_of_the_attention_matrices(case: Case, window: bool):
    """Also with padding in front, where rows may see nobody; minus infinity exactly where a row does not see it."""
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1)).sample(1)
    if case.masses == "padded":
        measure = TokenMeasure(measure.points, torch.tensor([0.0, 0.0, 0.5, 0.5]).double(), measure.positions)
    layer = windowed(layer, case, generator(2)) if window else layer
    at = layer.linearize(measure)
    seen = visible(layer.mask, measure.positions, measure.masses)
    for token in range(measure.length):
        logs = at.log_column(token)
        assert (logs.exp() - at.attention()[..., token]).abs().max() <= 1e-14
        assert torch.equal(logs != -torch.inf, seen[:, token].expand(logs.shape))


def test_attention_rows_sum_to_one():
    case = Case()
    operator = random_layer(case, generator(0)).linearize(random_measure(case, generator(1)))
    assert (operator.attention().sum(-1) - 1).abs().max() <= 1e-14


@pytest.mark.parametrize("size", [1e4, 1e8, 1e12])
def test_attention_rows_sum_to_one_whatever_the_logits(size: float):
    """Logits of order `size` have an absolute error of size * eps; their common part must not reach the weights."""
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1))
    operator = replace(layer, query=size * layer.query).linearize(measure)
    assert (operator.attention().sum(-1) - 1).abs().max() <= 1e-14


def test_logits_beyond_the_largest_float_are_not_taken_for_a_row_that_sees_nobody():
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1))
    assert not replace(layer, query=1e300 * layer.query, key=1e300 * layer.key)(measure).isfinite().any()


def test_memory_of_a_forward_pass_does_not_grow_with_length_squared_times_heads():
    """4 heads at n = 3000 would need 288 MB for P alone; the largest tensor made is a block."""
    layer = AttentionLayer(
        query=torch.randn(4, 2, 8),
        query_bias=torch.zeros(4, 2),
        key=torch.randn(4, 2, 8),
        key_bias=torch.zeros(4, 2),
        value=torch.randn(4, 2, 8),
        output=torch.randn(4, 8, 2),
        offset=torch.zeros(8),
        scale=1.0,
    )
    measure = TokenMeasure.uniform(torch.randn(1, 3000, 8))
    rows = [r.stop - r.start for r in module.row_blocks(module.project(layer, measure), None)]
    assert sum(rows) == 3000
    assert max(rows) * 3000 * 4 <= module.BLOCK_ELEMENTS
    assert LayerJacobian.at(layer, measure).kept is None


def test_logits_of_ten_thousand_do_not_overflow():
    layer = AttentionLayer.single_head(1e4 * torch.eye(2).double(), torch.eye(2).double())
    measure = TokenMeasure.uniform(torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]).double())
    operator = layer.linearize(measure)
    assert torch.isfinite(operator.value).all()
    assert torch.isfinite(operator.jvp(torch.ones(3, 2).double())).all()
    assert torch.allclose(operator.value[0], measure.points[0])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_pull_keys_is_the_transpose_of_the_keys_of_each_head(case: Case):
    """<c, K_h x> = <K_h^T c, x> in every head, rotary positions included."""
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1))
    keys = module.project_tangent(layer, measure, measure.points, module.project(layer, measure)).k
    cotangent = torch.randn(keys.shape, dtype=keys.dtype, generator=generator(2))
    pulled = module.pull_keys(layer, measure.positions, cotangent)
    sides = (cotangent * keys).sum((-2, -1)), (pulled * measure.points[..., None, :, :]).sum((-2, -1))
    assert torch.allclose(*sides, rtol=1e-12, atol=1e-12)

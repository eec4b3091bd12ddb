from __future__ import annotations

import pytest
import torch

from robust_attn.attention.rotary import Rotary, RotaryTable
from robust_attn.models.generic.refusal import LayerRefusedError
from robust_attn.models.generic.turning import rotation_of, turning_of

POSITIONS = torch.arange(7)
AT = POSITIONS.expand(4, 7)
FREQUENCIES = torch.tensor([1.0, 0.01, 1e-6])


def shown(turn, width=6):
    """Queries and keys of one vector per sample at every position, turned."""
    g = torch.Generator().manual_seed(0)
    still = torch.randn(4, 3, 1, width, generator=g, dtype=torch.float64).expand(-1, -1, 7, -1)
    turned = turn(still)
    return turned[:, :2], turned[:, 2:]


def test_without_a_rotation_there_is_none():
    assert turning_of(*shown(lambda vectors: vectors), 0) is None


def test_planes_in_any_order_are_found_and_the_models_own_frequencies_are_taken():
    order = torch.tensor([3, 0, 5, 1, 2, 4])
    rotary = Rotary(FREQUENCIES)
    turning = turning_of(*shown(lambda vectors: rotary.rotate(vectors[..., order], AT)[..., order.argsort()]), 0)
    assert {frozenset(pair) for pair in turning.order.view(2, 3).T.tolist()} == {
        frozenset(pair) for pair in order.view(2, 3).T.tolist()
    }
    assert torch.equal(turning.cosine, turning.cosine.float().double())  # float32 waves are found exactly


@pytest.mark.parametrize("scaling", [1.0, 1.25])
def test_frequencies_of_the_model_give_a_rotation_without_an_end(scaling):
    rotary = Rotary(FREQUENCIES, scaling)
    turning = turning_of(*shown(lambda vectors: rotary.rotate(vectors, AT)), 0)
    found, inside = rotation_of(turning, scaling, [torch.tensor([0.5, 0.1]), FREQUENCIES])
    assert isinstance(found, Rotary)
    assert torch.equal(found.inverse_frequencies, FREQUENCIES)
    assert (found.scaling, inside) == (scaling, scaling)


def test_without_frequencies_it_is_a_table():
    angles = torch.randn(7, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    angles[2], angles[:, 1] = 0.0, 0.0
    table = RotaryTable.of_angles(angles)
    turning = turning_of(*shown(lambda vectors: table.rotate(vectors, AT)), 2)
    found, inside = rotation_of(turning, 1.0, [FREQUENCIES])
    assert isinstance(found, RotaryTable)
    assert inside == 1.0
    vectors = torch.randn(1, 7, 6, dtype=torch.float64)
    order = turning.order
    expected = table.rotate(vectors, POSITIONS)[..., order]
    assert float((found.rotate(vectors[..., order], POSITIONS) - expected).abs().max()) <= 1e-13


@pytest.mark.parametrize(
    "turn",
    [
        lambda vectors: vectors * (1 + POSITIONS[:, None]),
        lambda vectors: vectors.roll(1, -1) * POSITIONS[:, None] + vectors,
        lambda vectors: vectors + POSITIONS[:, None],
    ],
    ids=["growing", "three mixed", "added"],
)
def test_what_is_no_rotation_of_planes_is_refused_or_is_a_table_that_grows(turn):
    try:
        turning = turning_of(*shown(turn), 0)
    except LayerRefusedError:
        return
    found, _ = rotation_of(turning, 1.0, [])
    still = shown(lambda vectors: vectors)[0][..., turning.order]
    assert float((found.rotate(still, AT) - shown(turn)[0][..., turning.order]).abs().max()) <= 1e-12

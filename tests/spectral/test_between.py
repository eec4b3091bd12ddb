"""The norm of W_Q^T R_i^T R_j W_K over the positions that there are."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask, Window
from robust_attn.attention.rotary import Rotary, RotaryTable
from robust_attn.spectral import between
from robust_attn.spectral.between import interaction_between
from robust_attn.spectral.norms import head_norms
from tests.cases import generator

WIDTH, D = 6, 5


def rotary_layer(seed, *, heads=4, groups=2, scale=-0.7, rotary=None, mask=Mask.NONE):
    draw = generator(seed)

    def drawn(*shape):
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    return AttentionLayer(
        query=drawn(heads, WIDTH, D),
        query_bias=drawn(heads, WIDTH),
        key=drawn(groups, WIDTH, D),
        key_bias=drawn(groups, WIDTH),
        value=drawn(groups, 3, D),
        output=drawn(heads, 4, 3),
        offset=drawn(4),
        scale=scale,
        mask=mask,
        rotary=Rotary(torch.tensor([1.0, 0.31, 0.02]), scaling=1.3) if rotary is None else rotary,
    )


def seen_interactions(layer, positions):
    """|B_ij| of every head and pair, from products of dense matrices; pairs that a mask hides are left out."""
    key, found = layer.key[layer.head_groups], []
    for i in positions.tolist():
        for j in positions.tolist():
            hidden = layer.mask.hides(torch.tensor([[i]]), torch.tensor([[j]]))
            if hidden is None or not bool(hidden):
                turned = [
                    layer.rotary.rotate(side.mT.contiguous(), torch.full((D,), place))
                    for side, place in ((layer.query, i), (key, j))
                ]
                found.append(torch.linalg.matrix_norm(layer.scale * turned[0] @ turned[1].mT, 2))
    return torch.stack(found)


MASKS = (Mask.NONE, Mask.CAUSAL, Window(2, 1))


@given(seed=st.integers(0, 200), mask=st.sampled_from(MASKS), start=st.sampled_from((0, 7, 3_000_000)))
def test_no_pair_exceeds_it_and_one_attains_it(seed, mask, start):
    """Far along, float32 angles are coarse: pairs at one distance differ, which is allowed for and not ignored."""
    layer = rotary_layer(seed, mask=mask)
    positions = start + torch.randperm(12, generator=generator(seed))[:6]
    exact = seen_interactions(layer, positions).amax(0)
    found = head_norms(layer, positions=positions).interaction
    assert (found >= exact * (1 - 1e-13)).all()
    assert (found <= head_norms(layer).interaction).all()
    if start < 10:
        assert (found <= exact * (1 + 1e-5)).all()


@given(seed=st.integers(0, 50))
def test_tables_that_do_not_depend_on_the_distance_alone_are_covered(seed):
    angles = 2 * math.pi * torch.rand(8, WIDTH // 2, generator=generator(seed), dtype=torch.float64)
    stretched = RotaryTable(1.5 * angles.cos(), 0.5 * angles.sin())
    for table in (RotaryTable.of_angles(angles), RotaryTable.of_angles(1e-3 * angles), stretched):
        layer, positions = rotary_layer(seed, rotary=table), torch.arange(8)
        found = head_norms(layer, positions=positions)
        assert (found.interaction >= seen_interactions(layer, positions).amax(0) * (1 - 1e-13)).all()
        assert found.stacked_interaction <= head_norms(layer).stacked_interaction


def test_a_quarter_turn_by_hand():
    """W_Q = diag(3, 1), W_K = diag(1, 2): no turn makes diag(3, 2) of norm 3, a quarter (0, -6; 1, 0) of norm 6."""
    layer = AttentionLayer(
        query=torch.diag(torch.tensor([3.0, 1.0])).double()[None],
        query_bias=torch.zeros(1, 2).double(),
        key=torch.diag(torch.tensor([1.0, 2.0])).double()[None],
        key_bias=torch.zeros(1, 2).double(),
        value=torch.eye(2).double()[None],
        output=torch.eye(2).double()[None],
        offset=torch.zeros(2).double(),
        scale=0.5,
        rotary=RotaryTable(torch.tensor([[1.0], [0.0], [-1.0]]), torch.tensor([[0.0], [1.0], [0.0]])),
    )
    assert float(head_norms(layer).interaction) == pytest.approx(3.0)
    assert float(head_norms(layer, positions=torch.tensor([1, 1])).interaction) == pytest.approx(1.5)
    assert float(head_norms(layer, positions=torch.tensor([0, 2])).interaction) == pytest.approx(1.5)
    assert float(head_norms(layer, positions=torch.tensor([0, 1])).interaction) == pytest.approx(3.0)


def test_of_too_many_positions_the_product_of_norms_is_left(monkeypatch):
    layer, everywhere = rotary_layer(0), head_norms(rotary_layer(0)).interaction
    positions = torch.arange(5)
    assert (interaction_between(layer, positions, everywhere=everywhere) < everywhere).all()
    monkeypatch.setattr(between, "MOST_POSITIONS", 4)
    assert torch.equal(interaction_between(layer, positions, everywhere=everywhere), everywhere)


def test_some_distances_at_a_time_find_the_same(monkeypatch):
    layer, positions = rotary_layer(1), torch.arange(9)
    whole = head_norms(layer, positions=positions).interaction
    monkeypatch.setattr(between, "CHUNK_ELEMENTS", 1)
    assert torch.equal(head_norms(layer, positions=positions).interaction, whole)


def test_rounding_is_allowed_for_unless_none_is_asked():
    layer, positions = rotary_layer(2), torch.arange(4)
    with_room, without = (head_norms(layer, positions=positions, unit=unit).interaction for unit in (2.0**-53, 0.0))
    assert (with_room > without).all()
    assert torch.allclose(with_room, without, rtol=1e-10)


def test_layers_without_rotation_do_not_ask():
    layer = replace(rotary_layer(3), rotary=None)
    assert torch.equal(head_norms(layer, positions=torch.arange(3)).interaction, head_norms(layer).interaction)

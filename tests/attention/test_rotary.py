import math

import pytest
import torch

from robust_attn.attention.rotary import Rotary, RotaryTable


def test_quarter_turn_by_hand():
    """Position 1 at frequency pi/2 turns (1, 0) into (0, 1); position 0 leaves it."""
    rotary = Rotary(torch.tensor([math.pi / 2]))
    vectors = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]]).double()
    turned = rotary.rotate(vectors, torch.tensor([0, 1]))
    assert torch.allclose(turned, torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]).double(), atol=1e-7)


def test_rotate_back_is_the_transpose_with_scaling():
    rotary, g = Rotary(torch.tensor([1.0, 0.1]), scaling=1.5), torch.Generator().manual_seed(0)
    x, y = torch.randn(2, 3, 5, 4, generator=g, dtype=torch.float64)
    positions = torch.arange(5)
    left, right = (rotary.rotate(x, positions) * y).sum(), (x * rotary.rotate_back(y, positions)).sum()
    assert abs(left - right) <= 1e-12


def test_inner_products_depend_on_the_distance_alone():
    rotary, g = Rotary(torch.tensor([1.0, 0.1])), torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 1, 4, generator=g, dtype=torch.float64)
    near = rotary.rotate(q, torch.tensor([5])) * rotary.rotate(k, torch.tensor([3]))
    far = rotary.rotate(q, torch.tensor([12])) * rotary.rotate(k, torch.tensor([10]))
    assert abs(near.sum() - far.sum()) <= 1e-6


def test_a_table_of_position_times_frequency_is_the_rotation_by_frequencies():
    frequencies, positions = torch.tensor([1.0, 0.1]), torch.arange(9)
    rotary = Rotary(frequencies, scaling=1.5)
    table = RotaryTable(*rotary.waves(positions))
    vectors = torch.randn(2, 9, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert torch.equal(table.rotate(vectors, positions), rotary.rotate(vectors, positions))
    assert torch.equal(table.rotate_back(vectors, positions), rotary.rotate_back(vectors, positions))
    assert abs(table.scaling - 1.5) <= 1e-6


def test_the_transpose_of_a_table_is_its_transpose_and_shares_positions_between_copies():
    g = torch.Generator().manual_seed(0)
    table = RotaryTable.of_angles(torch.randn(5, 2, generator=g, dtype=torch.float64))
    x, y = torch.randn(2, 3, 4, 4, generator=g, dtype=torch.float64)
    positions = torch.tensor([4, 0, 0, 2])
    left, right = (table.rotate(x, positions) * y).sum(), (x * table.rotate_back(y, positions)).sum()
    assert abs(left - right) <= 1e-13
    same = table.rotate(x[:, 1:2].expand(-1, 4, -1), positions)
    assert torch.equal(same[:, 1], same[:, 2])


def test_no_vector_grows_by_more_than_the_stretch_of_a_table():
    g = torch.Generator().manual_seed(1)
    table = RotaryTable(*(torch.randn(6, 3, generator=g, dtype=torch.float64) for _ in range(2)))
    vectors = torch.randn(500, 6, 6, generator=g, dtype=torch.float64)
    growth = table.rotate(vectors, torch.arange(6)).norm(dim=-1) / vectors.norm(dim=-1)
    assert float(growth.max()) <= table.stretch
    plane = int(torch.hypot(table.cosine, table.sine).max(dim=0).values.argmax())
    row = int(torch.hypot(table.cosine, table.sine)[:, plane].argmax())
    along = torch.zeros(1, 1, 6, dtype=torch.float64)
    along[..., plane] = 1.0
    assert float(table.rotate(along, torch.tensor([row])).norm()) >= table.scaling * (1 - 1e-14)  # attained


def test_an_angle_of_zero_turns_nothing():
    table = RotaryTable.of_angles(torch.tensor([[0.0, 0.0], [1.0, 0.0]]).double())
    vector = torch.tensor([[[1.0, 2.0, 3.0, 4.0]]]).double()
    turned = table.rotate(vector, torch.tensor([1]))[0, 0]
    assert turned[1] == 2.0
    assert turned[3] == 4.0
    assert turned[0] != 1.0


@pytest.mark.parametrize("position", [-1, 3])
def test_a_position_that_the_table_does_not_have_is_refused(position):
    table = RotaryTable.of_angles(torch.zeros(3, 1))
    with pytest.raises(ValueError, match="positions 0 to 2"):
        table.rotate(torch.zeros(1, 1, 2), torch.tensor([position]))


def test_a_table_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="finite"):
        RotaryTable(torch.ones(3, 1), torch.full((3, 1), math.nan))

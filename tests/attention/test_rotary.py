import math

import torch

from robust_attn.attention.rotary import Rotary


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

from __future__ import annotations

import torch
from torch import nn

from robust_attn.models.generic.events import LinearEvent
from robust_attn.models.generic.match import matched
from robust_attn.models.hooks import Spot


def made(samples: int = 8, out: int = 12):
    torch.manual_seed(0)
    linear = nn.Linear(6, out).double()
    given = torch.randn(samples, 1, 6, dtype=torch.float64).expand(-1, 5, -1)
    return linear, LinearEvent(0, Spot(linear), given, linear(given).detach())


def test_any_order_of_rows_is_found_with_its_factor():
    linear, event = made()
    order = torch.randperm(12)[:8]
    heads = (event.made[:, 2, order] * -3.0).unflatten(-1, (2, 4))
    rows = matched(heads, [event], 2)
    assert torch.equal(rows.features, order)
    assert rows.factor == -3.0
    affine = rows.affine(factors=True)
    assert torch.equal(affine.weight, -3.0 * linear.weight[order])
    assert torch.equal(affine.bias, -3.0 * linear.bias[order])


def test_rows_side_by_side_are_a_view():
    linear, event = made()
    rows = matched(event.made[:, 0, 4:8].unflatten(-1, (1, 4)), [event], 0)
    affine = rows.affine(factors=False)
    assert affine.weight.data_ptr() == linear.weight[4:].data_ptr()
    assert torch.equal(affine.weight, linear.weight[4:8])


def test_rows_of_several_maps_are_told_apart():
    one, first = made()
    two = nn.Linear(6, 12).double().requires_grad_(False)
    second = LinearEvent(1, Spot(two), first.given, two(first.given))
    both = torch.stack((first.made[:, 0, 3], second.made[:, 0, 5]), dim=-1)
    rows = matched(both[:, None, :], [first, second], 0)
    assert rows.owners.tolist() == [0, 1]
    assert torch.equal(rows.affine(factors=False).weight, torch.stack((one.weight[3], two.weight[5])))


def test_a_row_of_zeros_is_found_among_others():
    linear, event = made()
    with torch.no_grad():
        linear.weight[7], linear.bias[7] = 0.0, 0.0
    event = LinearEvent(0, Spot(linear), event.given, linear(event.given).detach())
    rows = matched(event.made[:, 0, 4:8].unflatten(-1, (1, 4)), [event], 0)
    assert rows.features.tolist() == [4, 5, 6, 7]


def test_what_is_no_multiple_of_a_feature_is_not_matched():
    _, event = made()
    mixed = event.made[:, 0, :4] + 1e-6 * event.made[:, 0, 4:8]
    assert matched(mixed[:, None, :], [event], 0) is None
    assert matched(torch.tanh(event.made[:, 0, :4])[:, None, :], [event], 0) is None

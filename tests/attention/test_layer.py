import dataclasses
import math

import pytest
import torch

from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from tests.cases import CASES, Case, generator, random_layer, random_measure, scalar_layer, scalar_measure


def test_hand_computed_value():
    """x = (0, 1), A = log 3: row 1 has logits (0, log 3), weights (1/4, 3/4): 3/4; row 0 is the mean 1/2."""
    value = scalar_layer(math.log(3))(scalar_measure([0.0, 1.0]))
    assert torch.allclose(value, torch.tensor([[0.5], [0.75]]).double(), atol=1e-15)


def test_hand_computed_masses():
    """Masses (1/4, 3/4) at (0, 1) without interaction: every output is the mean of the measure, 3/4."""
    value = scalar_layer(0.0)(scalar_measure([0.0, 1.0], [0.25, 0.75]))
    assert torch.allclose(value, torch.full((2, 1), 0.75).double(), atol=1e-15)


def test_one_token_is_mapped_linearly():
    case = Case(bias=False)
    layer = random_layer(case, generator(0))
    x = torch.randn(1, 5, generator=generator(1), dtype=torch.float64)
    expected = sum(layer.output[h] @ layer.value[layer.group_of(h)] for h in range(2)) @ x[0] + layer.offset
    assert torch.allclose(layer(TokenMeasure.uniform(x))[0], expected, atol=1e-14)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("copies", [2, 3])
def test_splitting_changes_nothing(case: Case, copies: int):
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1))
    together = layer(measure).repeat_interleave(copies, dim=-2)
    assert (layer(measure.split(copies)) - together).abs().max() <= 1e-13


def test_masses_equal_repeated_tokens():
    """Mass 2/3 on one of two tokens is the same as that token twice among three, at the same position."""
    layer = random_layer(Case(), generator(0))
    x = torch.randn(2, 5, generator=generator(1), dtype=torch.float64)
    weighted = TokenMeasure.weighted(x, torch.tensor([1 / 3, 2 / 3]).double())
    repeated = TokenMeasure.uniform(x[[0, 1, 1]])
    assert torch.allclose(layer(weighted)[1], layer(repeated)[2], atol=1e-14)


def test_causal_rows_ignore_later_tokens():
    layer = random_layer(Case(mask=Mask.CAUSAL), generator(0))
    x = torch.randn(4, 5, generator=generator(1), dtype=torch.float64)
    changed = x.clone()
    changed[3] += 10.0
    before, after = layer(TokenMeasure.uniform(x)), layer(TokenMeasure.uniform(changed))
    assert torch.equal(before[:3], after[:3])
    assert not torch.allclose(before[3], after[3])


def test_padding_is_seen_by_nobody():
    case = Case()
    layer = random_layer(case, generator(0))
    x = torch.randn(5, 5, generator=generator(1), dtype=torch.float64)
    alone = layer(TokenMeasure.uniform(x[:3]))
    padded = layer(TokenMeasure.padded(x[None], torch.tensor([3])))[0]
    assert torch.allclose(padded[:3], alone, atol=1e-14)


def test_key_bias_matters_only_with_rotation():
    """Without rotation b_K shifts all logits of a row alike; with it the shift depends on the pair."""
    for rotary, same in ((False, True), (True, False)):
        layer = random_layer(Case(rotary=rotary), generator(0))
        bare = dataclasses.replace(layer, key_bias=torch.zeros_like(layer.key_bias))
        measure = random_measure(Case(), generator(1))
        assert torch.allclose(layer(measure), bare(measure), atol=1e-13) is same


def test_heads_add_up():
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1))
    heads = sum(layer.head(h)(measure) for h in range(layer.heads))
    assert torch.allclose(heads + layer.offset, layer(measure), atol=1e-14)


def test_uneven_groups_are_refused():
    layer = random_layer(Case(), generator(0))
    three = {name: getattr(layer, name)[[0, 1, 1]] for name in ("query", "query_bias", "output")}
    with pytest.raises(ValueError, match="evenly"):
        dataclasses.replace(layer, **three)


def test_a_layer_first_used_inside_a_transform_still_works_outside():
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1))
    expected = random_layer(Case(), generator(0))(measure)
    torch.func.jvp(lambda p: layer(measure.with_points(p)), (measure.points,), (measure.points,))
    assert torch.equal(layer(measure), expected)

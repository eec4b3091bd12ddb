"""Weights that certificates were once wrong about are what they are said to be."""

from dataclasses import replace

import pytest
import torch

from robust_attn.attention.measure import TokenMeasure
from robust_attn.soundness.case import AGAINST_START, CANCELLING, Case
from robust_attn.soundness.numbers import layer_of
from robust_attn.soundness.rival import exact_product
from robust_attn.soundness.weights import TOPS, published_start, weights_of

CASE = Case(4, tokens=3, width=3, groups=2, head_width=4, out=2, cancelling_size=1e8)
HIDDEN = Case(4, tokens=2, width=144, out=144)


@pytest.mark.parametrize("kind", CANCELLING)
def test_large_weights_cancel_up_to_rounding_and_not_exactly(kind):
    found = weights_of(replace(CASE, weights=kind))
    for name, left, right in (
        (CANCELLING[0], found.output[0], found.value[0]),
        (CANCELLING[1], found.key[0].T, found.query[0]),
    ):
        if kind in (name, CANCELLING[2]):
            assert float(left.abs().max()) > 1e7
            assert float(right.abs().max()) > 1e7
            assert 0 < float(exact_product(left, right).abs().max()) < 100
        else:
            assert float(left.abs().max()) < 10


@pytest.mark.parametrize("kind", AGAINST_START)
def test_the_top_direction_is_hidden_from_the_start_and_no_other_is(kind):
    case = replace(HIDDEN, weights=kind)
    _, values, right = torch.linalg.svd(weights_of(case).output[0])
    assert float(values[0]) == pytest.approx(TOPS[kind])
    assert float(values[1]) <= 1 + 1e-12
    seen = right @ published_start(case).sum(0)
    assert float(seen[0].abs()) < 1e-12
    assert int((seen[1:].abs() > 1e-6).sum()) == 143


def test_attention_is_even_where_a_start_is_meant():
    layer = layer_of(replace(HIDDEN, weights=AGAINST_START[0]))
    points = torch.randn(2, 144, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    outputs = layer(TokenMeasure.uniform(points)) - layer.offset
    assert torch.allclose(outputs, (points.mean(0) @ layer.output[0].T).expand(2, -1))


def test_the_starts_are_those_of_the_library_and_of_the_command_line():
    first = torch.randn(1, 2, 144, generator=torch.Generator().manual_seed(0), dtype=torch.float64)[0]
    assert torch.equal(published_start(replace(HIDDEN, weights=AGAINST_START[0])), first)
    other = published_start(replace(HIDDEN, weights=AGAINST_START[1]))
    assert not torch.equal(other, first)
    assert not torch.equal(other, published_start(replace(HIDDEN, weights=AGAINST_START[1], seed=5)))


def test_sparse_weights_have_zeros_and_blind_keys_miss_the_last_coordinate():
    assert 0 < int((weights_of(replace(CASE, weights="sparse")).query == 0).sum()) < 24
    blind = weights_of(replace(CASE, weights="blind"))
    assert bool((blind.key[..., -1] == 0).all())
    assert bool((blind.query != 0).all())

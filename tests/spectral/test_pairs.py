import math

import pytest
import torch

from robust_attn.spectral import pairs
from robust_attn.spectral.lipschitz import local_lipschitz
from robust_attn.spectral.pairs import pair_norms
from tests.cases import CASES, generator, one_sample, random_layer, random_measure, scalar_layer, scalar_measure


def dense_pair_norms(layer, measure):
    """The blocks of the dense matrix, padding left out."""
    n, out, d = measure.length, layer.out_width, layer.width
    blocks = layer.linearize(measure).dense().unflatten(-1, (n, d)).unflatten(-3, (n, out)).transpose(-2, -3)
    present = measure.present.to(blocks.dtype)
    return torch.linalg.matrix_norm(blocks, 2) * present[..., None, :] * present[..., None]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_agrees_with_the_dense_matrix(case):
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1))
    assert torch.allclose(pair_norms(layer, measure), dense_pair_norms(layer, measure), atol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_one_head_is_reduced_by_qr_and_blocks_of_columns_do_not_matter(case, monkeypatch):
    """One head: W_O is 6 x 3 and the projections 11 x 5, so the left side is reduced; one block at a time."""
    layer, measure = random_layer(case, generator(0)).head(1), random_measure(case, generator(1))
    monkeypatch.setattr(pairs, "BLOCK_ELEMENTS", 1)
    assert torch.allclose(pair_norms(layer, measure), dense_pair_norms(layer, measure), atol=1e-12)


def test_two_tokens_by_hand():
    """x = (0, 1), A = -8, V = 1. Row 0: P = (1/2, 1/2), m = 1/2, q = 0, C = 1/4.

    D_00 = 1/2 + (1/4)(-8) = -3/2, D_01 = 1/2. Row 1: q = -8, P_11 = p = 1/(1 + e^8), m = p, C = p (1 - p):
    D_10 = (1 - p)(1 + 8 p), D_11 = p (1 - 8 (1 - p)) - 8 p (1 - p).
    """
    p = 1 / (1 + math.exp(8))
    norms = pair_norms(scalar_layer(-8.0), scalar_measure([0.0, 1.0]))
    expected = [1.5, 0.5, (1 - p) * (1 + 8 * p), abs(p * (1 - 8 * (1 - p)) - 8 * p * (1 - p))]
    assert norms.flatten().tolist() == pytest.approx(expected, rel=1e-12)


def test_one_token_gives_the_norm_of_the_value_map():
    """n = 1: the map is V x whatever the logits, so |D_00| = |V|."""
    assert pair_norms(scalar_layer(5.0, -3.0), scalar_measure([2.0])).tolist() == [[3.0]]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_norm_of_the_norms_dominates_the_constant(case):
    """|D| <= | [ |D_ij| ] | (docs/proofs/operator.md#blocks), with ones as weights where nothing is padding."""
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1))
    weights = measure.present.to(layer.dtype)
    constant = local_lipschitz(layer, measure, weights=weights).lower
    assert (constant <= torch.linalg.matrix_norm(pair_norms(layer, measure), 2) * (1 + 1e-12)).all()


def test_causal_pairs_in_the_future_are_zero():
    case = next(case for case in CASES if case.mask == "causal" and case.masses == "uniform")
    norms = pair_norms(random_layer(case, generator(0)), random_measure(case, generator(1)))
    assert (norms.triu(1) == 0).all()
    assert (norms.diagonal(dim1=-2, dim2=-1) > 0).all()


def test_single_precision():
    case = CASES[0]
    layer, measure = random_layer(case, generator(0)), one_sample(random_measure(case, generator(1)).sample(0))
    single = pair_norms(layer.to(torch.float32), measure.to(torch.float32))
    assert single.dtype == torch.float32
    assert torch.allclose(single.double(), pair_norms(layer, measure), rtol=1e-4)

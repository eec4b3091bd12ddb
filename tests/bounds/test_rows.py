import math
from dataclasses import fields

import pytest
import torch

from robust_attn.attention.jacobian import project
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.rounding import Rounding, rounding_at
from robust_attn.bounds import rows as module
from robust_attn.bounds.rows import (
    KnownRows,
    RowBlock,
    Spread,
    _query_block,
    _token_rows,
    known_attention,
    row_blocks,
    sample_block,
)
from robust_attn.spectral.lipschitz import QueryPart
from tests.cases import (
    ADDED_CASES,
    CASES,
    generator,
    one_sample,
    random_layer,
    random_measure,
    scalar_layer,
    scalar_measure,
)


def test_spread_by_hand():
    """A = 0, x = (0, 1), V = 3: both rows weigh 1/2 each, values 0 and 3 lie 1.5 from their mean, deviation 1.5."""
    (block,) = row_blocks(scalar_layer(0.0, 3.0), one_sample(scalar_measure([0.0, 1.0])))
    assert block.log_p.exp().flatten().tolist() == pytest.approx([0.5] * 4)
    assert block.value_distance.flatten().tolist() == pytest.approx([1.5] * 4)
    assert block.value_deviation.flatten().tolist() == pytest.approx([1.5] * 2)


def test_slopes_by_hand():
    """A = -8, x = (0, 1): ds_ij/dx_j = -8 x_i, so 0 and 8; ds_ij/dx_i = -8 x_j, so 0 and -8."""
    (block,) = row_blocks(scalar_layer(-8.0), one_sample(scalar_measure([0.0, 1.0])))
    assert block.key_slope[0, 0].tolist() == [pytest.approx([0.0, 0.0]), pytest.approx([8.0, 8.0])]
    assert block.slope_distance[0, 0, 0].tolist() == pytest.approx([4.0, 4.0])
    assert block.key_gram[0, :, 0, 0, 0].tolist() == pytest.approx([0.0, 64.0])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_slopes_agree_with_autograd(case):
    """Differences of ds_ij/dx_i between atoms, and the norm of ds_ij/dx_j, for every pair of different atoms."""
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1), samples=1)
    slope = torch.func.jacrev(lambda points: _logits(layer, measure, points))(measure.points[0])
    (block,) = row_blocks(layer, measure)
    for i in range(measure.length):
        for j in range(measure.length):
            if i != j:
                assert torch.allclose(slope[:, i, j, j].norm(dim=-1), block.key_slope[0, :, i, j], rtol=1e-9)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gram_of_the_key_slopes_agrees_with_autograd(case):
    """Inner products between heads of ds_ij/dx_j, i != j; one column for all j unless a rotation tells them apart."""
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1), samples=1)
    slope = torch.func.jacrev(lambda points: _logits(layer, measure, points))(measure.points[0])
    (block,) = row_blocks(layer, measure)
    assert block.key_gram.shape[-3] == (measure.length if case.rotary else 1)
    for i in range(measure.length):
        for j in range(measure.length):
            if i != j:
                gram = block.key_gram[0, i, j if case.rotary else 0]
                assert torch.allclose(slope[:, i, j, j] @ slope[:, i, j, j].T, gram, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rows_looked_at_one_by_one_are_the_same(monkeypatch, case):
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1))
    (together,) = row_blocks(layer, measure)
    monkeypatch.setattr(module, "CACHED_ELEMENTS", 1)
    (alone,) = row_blocks(layer, measure)
    for name in ("value_distance", "value_deviation", "slope_distance", "slope_deviation", "query_block"):
        assert torch.allclose(getattr(together, name), getattr(alone, name), rtol=1e-12, atol=1e-14), name


def test_blocks_cover_all_rows(monkeypatch):
    monkeypatch.setattr(module, "PAIR_ELEMENTS", 1)
    blocks = list(row_blocks(random_layer(CASES[0], generator(0)), random_measure(CASES[0], generator(1), length=3)))
    assert [(block.rows.start, block.rows.stop) for block in blocks] == [(0, 1), (1, 2), (2, 3)]


def _logits(layer, measure, points):
    parts = project(layer, measure.with_points(points[None]))
    return (layer.scale * parts.q @ parts.k.transpose(-1, -2))[0]


@pytest.mark.parametrize("case", [case for case in CASES if case.masses != "copies"], ids=str)
@pytest.mark.parametrize("copies", [2, 3])
def test_rows_of_copies_are_those_of_their_tokens(case, copies):
    """What is found of the tokens and written down for each copy is what looking at every copy finds."""
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1), length=4).split(copies)
    (found,) = row_blocks(layer, measure)
    (direct,) = _token_rows(layer, measure, rounding_at(layer, measure), None)
    assert found.rows == direct.rows
    for name in (field.name for field in fields(RowBlock) if field.name != "rows"):
        one, other = getattr(found, name), getattr(direct, name)
        assert torch.allclose(one.double(), other.double(), rtol=1e-7, atol=1e-12), name


@pytest.mark.parametrize("case", [case for case in CASES if case.masses != "copies"][:4], ids=str)
def test_known_rows_are_those_of_the_tokens_and_of_their_copies(case):
    layer, tokens = random_layer(case, generator(0)), random_measure(case, generator(1), samples=2)
    known = KnownRows.at(layer, tokens.split(2))
    assert known is not None
    for measure in (tokens, tokens.split(2)):
        found = known.of(measure)
        assert found is not None
        for block, fresh in zip(found, row_blocks(layer, measure), strict=True):
            for name in ("log_p", "value_distance", "value_deviation", "slope_distance", "key_slope", "query_block"):
                assert torch.allclose(getattr(block, name), getattr(fresh, name), rtol=1e-9, atol=1e-12)
            assert (block.logit_error >= fresh.logit_error * (1 - 1e-12)).all()
            assert torch.equal(sample_block(block, 1).log_p, block.log_p[1:])
    assert known.of(tokens.with_points(tokens.points * (1 + 1e-15))) is None
    assert known.of(TokenMeasure.uniform(tokens.points[:, :2])) is None


@pytest.mark.parametrize("case", [*CASES, *ADDED_CASES], ids=str)
@pytest.mark.parametrize("copies", [1, 2])
def test_known_rows_bound_what_queries_do_alone(case, copies):
    """The norm of the derivative through the queries, block by block; of one head it is nearly attained."""
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1))
    for each, exactly in ((layer, False), (layer.head(0), True)):
        part = QueryPart(each.linearize(measure)).dense()
        size = torch.where(measure.present, 1.0, 0.0).double()
        shown = size.repeat_interleave(part.shape[-2] // measure.length, dim=-1)[..., None] * part
        exact = torch.linalg.matrix_norm(shown, 2)
        found = KnownRows.at(each, measure.split(copies)).query_norm
        assert (found >= exact * (1 - 1e-13)).all()
        if exactly:
            assert torch.allclose(found, exact, rtol=1e-6)


def test_logits_that_err_too_much_leave_equal_weights_off_by_anything():
    """Head 0 errs by 0.5 and keeps its weights; head 1 by 1.5: equal ones over what is seen; head 2 by no number."""
    log_p = torch.tensor([0.9, 0.1, 0.0]).double().log().expand(1, 3, 1, 3)
    error = torch.tensor([[0.5, 1.5, torch.nan]]).double()
    seen = torch.tensor([True, True, False]).expand(1, 1, 1, 3)
    found, off = known_attention(log_p, error, seen)
    assert found.exp()[0, :, 0].tolist() == [
        pytest.approx(row) for row in ([0.9, 0.1, 0], [0.5, 0.5, 0], [0.5, 0.5, 0])
    ]
    assert off[0, :2].tolist() == [0.5, 1000.0]
    assert off[0, 2].isnan()


def test_what_a_query_block_allows_for_by_hand():
    """Deviations 2 and 3, |Cov| = 1, weights off by a part g = 0.1, values by 0.01, slopes by 0.02.

    1 + 2 * 3 (g + g^2) + 0.01 * 3 + 0.02 * 2; two heads of it twice that.
    """
    values, slopes = (
        Spread(torch.zeros(1, 2, 1, 2).double(), torch.full((1, 2, 1), size).double()) for size in (2.0, 3.0)
    )
    numbers = (math.log1p(0.1) / 2, 0.01, 0.02, 0.0)
    error = Rounding(*(torch.full((1, 2), number, dtype=torch.float64) for number in numbers))
    found = _query_block(values, slopes, torch.ones(1, 2, 1).double(), error)
    assert found.item() == pytest.approx(2 * (1 + 6 * 0.11 + 0.03 + 0.04))


def test_points_that_are_known_up_to_an_error_by_hand():
    known = Spread(torch.ones(1, 1, 2).double(), torch.ones(1, 1).double()).known_up_to(torch.full((1,), 0.25).double())
    assert known.distance.flatten().tolist() == [1.5, 1.5]
    assert known.deviation.item() == 1.25

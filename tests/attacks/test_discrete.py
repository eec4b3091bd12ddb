"""Repeated tokens: scores are derivatives, choices are checked by reading, and free masses are never worse."""

import math

import pytest
import torch
from torch.nn import functional

from robust_attn.attacks.discrete import RepeatTokens, best_free_masses, mass_scores, repeated_at
from robust_attn.attention.measure import TokenMeasure
from robust_attn.types import UserError
from tests.cases import generator
from tests.through.cases import ids, text_classifier


def everything(row):
    return torch.ones_like(row, dtype=torch.bool)


def mean_reader(measure: TokenMeasure) -> torch.Tensor:
    """Logits (0, weighted mean of one coordinate): every question about masses has an answer by hand."""
    mean = (measure.masses * measure.points[..., 0]).sum(-1)
    return torch.stack([torch.zeros_like(mean), mean], dim=-1)


def column(row: torch.Tensor) -> TokenMeasure:
    """Token id t at the point t / 10."""
    return TokenMeasure.uniform(row[..., None].double() / 10)


def test_scores_are_derivatives_with_respect_to_log_masses():
    reader = text_classifier()
    measure, label = reader.measure(ids()[:1]), 0
    scores = mass_scores(reader.logits, measure, label)
    assert float(scores.sum()) == pytest.approx(0, abs=1e-12)
    for token in range(measure.length):
        losses = []
        for step in (1e-5, -1e-5):
            growth = torch.zeros_like(measure.masses)
            growth[0, token] = step
            masses = (measure.masses.log() + growth).softmax(-1)
            read = reader.logits(TokenMeasure(measure.points, masses, measure.positions))
            losses.append(float(functional.cross_entropy(read, torch.tensor([label]))))
        assert float(scores[token]) == pytest.approx((losses[0] - losses[1]) / 2e-5, rel=1e-5, abs=1e-9)


def test_the_score_of_a_mean_by_hand():
    """Loss log(1 + e^m) of label 0, m the mean: d/da_i = sigmoid(m) m_i (x_i - m). Points 0, 0.1, 0.5: m = 0.2."""
    scores = mass_scores(mean_reader, column(torch.tensor([[0, 1, 5]])), 0)
    slope = 1 / (1 + math.exp(-0.2))
    assert scores.tolist() == pytest.approx([slope / 3 * (x - 0.2) for x in (0.0, 0.1, 0.5)])


def test_repeated_at():
    assert repeated_at(torch.tensor([7, 8, 9]), 1).tolist() == [7, 8, 8, 9]
    assert repeated_at(torch.tensor([7, 8, 9]), 2).tolist() == [7, 8, 9, 9]


def test_of_a_mean_the_largest_token_is_repeated_again_and_again():
    found = RepeatTokens(3, 1)(mean_reader, column, torch.tensor([1, 5, 2]), 0, may_repeat=everything)
    assert [step.ids.tolist() for step in found] == [[1, 5, 5, 2], [1, 5, 5, 5, 2], [1, 5, 5, 5, 5, 2]]
    assert found[-1].counts.tolist() == [0, 3, 0]
    assert {step.rank for step in found} == {0}


def test_tokens_that_may_not_be_typed_are_left_alone():
    found = RepeatTokens(2, 5)(mean_reader, column, torch.tensor([1, 5, 2]), 0, may_repeat=lambda row: row != 5)
    assert found[-1].counts.tolist() == [0, 0, 2]
    with pytest.raises(UserError, match="no token that could be repeated"):
        RepeatTokens()(mean_reader, column, torch.tensor([1]), 0, may_repeat=lambda row: row != 1)


def test_with_all_tokens_as_candidates_it_is_the_best_of_all_texts():
    reader = text_classifier()
    row, label = ids()[0], 0
    (step,) = RepeatTokens(1, 99)(reader.logits, reader.measure, row, label, may_repeat=everything)
    losses = [
        float(
            functional.cross_entropy(
                reader.logits(reader.measure(repeated_at(row, place)[None])), torch.tensor([label])
            )
        )
        for place in range(len(row))
    ]
    assert step.place == max(range(len(row)), key=lambda place: losses[place])
    torch.testing.assert_close(step.logits, reader.logits(reader.measure(step.ids[None]))[0])


def test_free_masses_put_everything_on_the_best_token_of_a_mean():
    """k = 2 repetitions of three tokens at 0, 0.1, 0.5: all on the last, (0 + 0.1 + 3 * 0.5) / 5 = 0.32."""
    measure = column(torch.tensor([[0, 1, 5]]))
    free = best_free_masses(mean_reader, measure, 0, torch.tensor([2.0, 0, 0]).double(), steps=20)
    assert free.counts.tolist() == pytest.approx([0, 0, 2])
    assert float(free.logits[1]) == pytest.approx(0.32)
    assert free.loss == pytest.approx(math.log(1 + math.exp(0.32)))


@pytest.mark.parametrize("seed", range(4))
def test_free_masses_are_never_below_the_counts_they_start_from(seed):
    reader = text_classifier()
    measure = reader.measure(ids()[:1])
    counts = 3 * torch.rand(5, generator=generator(seed), dtype=torch.float64)
    start = best_free_masses(reader.logits, measure, 1, counts, steps=0)
    free = best_free_masses(reader.logits, measure, 1, counts, steps=15)
    assert free.loss >= start.loss
    assert float(free.counts.sum()) == pytest.approx(float(counts.sum()))
    assert bool((free.counts >= 0).all())


def test_wrong_settings():
    with pytest.raises(UserError, match="at least 1, got 0 and 8"):
        RepeatTokens(0)

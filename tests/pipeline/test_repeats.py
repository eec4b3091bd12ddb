"""Repeated tokens in a whole model, and distances between texts of different length."""

import json

import pytest
import torch

from robust_attn.attacks.discrete import RepeatTokens
from robust_attn.attacks.move import Move
from robust_attn.pipeline.repeats import RepeatedTokens, uniform_distance
from tests.through.cases import ids, text_classifier


def test_distance_between_measures_of_different_sizes_by_hand():
    """1/2 at 0 and 1/2 at 1 against 1/3 at 0 and 2/3 at 1: a sixth goes from 0 to 1, W2 = sqrt(1/6)."""
    first, second = torch.tensor([[0.0], [1.0]]), torch.tensor([[0.0], [1.0], [1.0]])
    assert uniform_distance(first, second) == pytest.approx((1 / 6) ** 0.5)
    assert uniform_distance(first, first) == 0.0
    assert uniform_distance(first, first.repeat_interleave(3, dim=0)) == pytest.approx(0.0, abs=1e-12)


def test_records_of_every_repetition_and_of_every_layer():
    reader, batch = text_classifier(), ids(1, 4)
    task = RepeatedTokens(RepeatTokens(2, 2), Move(2, 0))
    found = list(task.records(reader, batch, [0, 1], seed=0))
    json.dumps([record.to_json() for record in found], allow_nan=False)
    assert [record.kind for record in found] == ["repeat", "repeat", "repeat_layer", "repeat_layer"]
    for record in found:
        if record.kind == "repeat":
            assert record.flipped is (record.prediction["clean"] != record.prediction["typed"])
            assert record.w2_embeddings > 0
            continue
        typed = record.typed
        assert 0 < typed.w2_output <= record.certified.output_change
        assert record.verdict in ("HOLDS", "VACUOUS")
        assert record.continuous.attack == "move"
    firsts = [record.loss.clean for record in found if record.kind == "repeat"]
    assert firsts[0] == firsts[1]


def test_the_typed_text_is_what_was_read():
    reader, batch = text_classifier(), ids(1, 4)
    task = RepeatedTokens(RepeatTokens(1, 9), Move(1, 0))
    record = next(iter(task.records(reader, batch, [0], seed=0)))
    place = record.place
    typed = torch.cat((batch[0, : place + 1], batch[0, place:]))
    read = reader.logits(reader.measure(typed[None]))
    assert record.prediction["typed"] == int(read.argmax())
    loss = torch.nn.functional.cross_entropy(read, torch.tensor([record.prediction["clean"]]))
    assert record.loss.typed == pytest.approx(float(loss))

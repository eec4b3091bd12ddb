"""A fixed sample of model types by default, every type that the installed transformers can build in the slow suite."""

from __future__ import annotations

import os

import pytest

from benchmarks.architectures import NOT_BUILT, PARTLY, SUPPORTED, Row, known_rows, page, row_of, rows
from benchmarks.tiny_models import model_types

SAMPLE = {
    **dict.fromkeys(
        ("albert", "bart", "beit", "clip_vision_model", "dinov2", "electra", "gemma", "gpt_neox"), SUPPORTED
    ),
    **dict.fromkeys(("llama", "mixtral", "modernbert", "opt", "phi3", "qwen2", "smollm3", "whisper"), SUPPORTED),
    **dict.fromkeys(("qwen3", "gpt_oss", "t5", "bloom"), SUPPORTED),
}
AT_LEAST = 260
EVERY_TYPE = "ROBUST_ATTN_EVERY_TYPE"


def test_the_sample_has_twenty_types():
    assert len(SAMPLE) == 20


@pytest.mark.parametrize("model_type", sorted(SAMPLE))
def test_a_type_of_the_sample(model_type):
    row = row_of(model_type)
    assert row.verdict == SAMPLE[model_type], row
    if row.verdict == SUPPORTED:
        assert row.layers >= 2
        assert row.difference is not None
        assert row.difference <= 1e-10


def test_a_type_that_cannot_be_built_says_so():
    row = row_of("no such type")
    assert row.verdict == NOT_BUILT
    assert "no such type" in row.said


def test_the_page_counts_and_names_every_type():
    found = [
        Row("a", SUPPORTED, 2, 3, 1e-15, "left out: x"),
        Row("b", PARTLY, 1, 2, 1e-15),
        Row("c", NOT_BUILT, said="|"),
    ]
    text = page(found)
    assert "**1 of 2 types that were built are supported** (2 layers, worst difference 1e-15); 1 of them need" in text
    assert "| a | supported | 2 of 3 | 1e-15 | left out: x |" in text
    assert "| c | not built |  |  | \\| |" in text
    assert list(known_rows(text).values()) == found


@pytest.mark.slow
@pytest.mark.skipif(EVERY_TYPE not in os.environ, reason=f"takes half an hour: {EVERY_TYPE}=1 runs it")
def test_at_least_two_hundred_types_are_served_without_code_of_their_own():
    found = list(rows(sorted(model_types()), seconds=60))
    supported = [row for row in found if row.verdict == SUPPORTED]
    assert len(supported) >= AT_LEAST
    assert max(row.difference for row in supported) <= 1e-10

"""A fixed sample of model types by default, all that transformers has where the environment asks for it."""

from __future__ import annotations

import os

import pytest
import transformers

from benchmarks.architectures import NOT_BUILT, PAGE, PARTLY, SUPPORTED, WITH, Row, known_rows, page, row_of, rows
from benchmarks.tiny_models import model_types

SAMPLE = {
    **dict.fromkeys(
        ("albert", "bart", "beit", "clip_vision_model", "dinov2", "electra", "gemma", "gpt_neox"), SUPPORTED
    ),
    **dict.fromkeys(("llama", "mixtral", "modernbert", "opt", "phi3", "qwen2", "smollm3", "whisper"), SUPPORTED),
    **dict.fromkeys(("qwen3", "gpt_oss", "t5", "bloom"), SUPPORTED),
}
AT_LEAST, PLAIN = 260, 200
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


def test_the_page_has_the_types_that_were_asked_for():
    supported = [row for row in known_rows(PAGE.read_text(encoding="utf-8")).values() if row.verdict == SUPPORTED]
    assert len(supported) >= AT_LEAST
    assert sum(not row.said.startswith(WITH) for row in supported) >= PLAIN
    assert max(row.difference for row in supported) <= 1e-10


@pytest.mark.slow
@pytest.mark.skipif(EVERY_TYPE not in os.environ, reason=f"takes ten minutes: {EVERY_TYPE}=1 runs it")
def test_the_page_is_what_the_types_show():
    """Every type, on the version of transformers that the page was made with."""
    text = PAGE.read_text(encoding="utf-8")
    if f"with transformers {transformers.__version__}:" not in text:
        pytest.skip(f"the page was made with another transformers than {transformers.__version__}")
    known, types = known_rows(text), sorted(model_types())
    found = list(rows(types, seconds=120))
    assert not [row for row in found if row.verdict == SUPPORTED and not row.difference <= 1e-10]
    assert not [(row, known[row.model_type]) for row in found if row.verdict != known[row.model_type].verdict]

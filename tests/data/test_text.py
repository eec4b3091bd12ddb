from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.data.text import read_text, spans
from robust_attn.types import UserError


@given(tokens=st.integers(1, 20), samples=st.integers(1, 20), spare=st.integers(0, 100))
def test_spans_have_exactly_the_length_and_do_not_overlap(tokens, samples, spare):
    length = tokens * samples + spare
    found = spans(length, tokens, samples)
    assert [span.stop - span.start for span in found] == [tokens] * samples
    assert found[-1].stop <= length
    gaps = {after.start - before.start for before, after in pairwise(found)}
    assert len(gaps) == min(samples - 1, 1)  # evenly spread
    assert all(tokens <= gap <= length // samples for gap in gaps)  # none overlapping, over the whole stream


def test_too_little_text_is_refused_with_both_numbers():
    with pytest.raises(UserError, match="text has 11 tokens, but 3 samples of 4 tokens need 12"):
        spans(11, 4, 3)
    assert spans(12, 4, 3) == [slice(0, 4), slice(4, 8), slice(8, 12)]


@pytest.mark.parametrize(("tokens", "samples"), [(0, 1), (1, 0), (-1, 2)])
def test_counts_below_one_are_refused(tokens, samples):
    with pytest.raises(UserError, match="at least 1"):
        spans(3, tokens, samples)


def test_unicode_text_is_read_as_it_is(tmp_path):
    text = "naïve 你好 — 𝔸ttention\n"
    (tmp_path / "text.txt").write_bytes(text.encode())
    assert read_text(tmp_path / "text.txt") == text


@pytest.mark.parametrize(
    ("content", "message"), [(b"\xff\xfe\x00", "not UTF-8"), (b"", "has no text"), (b" \n\t", "has no text")]
)
def test_files_without_text_are_refused(content, message, tmp_path):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_text(tmp_path / "file")


def test_files_that_cannot_be_opened_are_refused(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        read_text(tmp_path / "absent")
    with pytest.raises(UserError, match="is a folder"):
        read_text(tmp_path)

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.data.text import prose, read_text, spans, windows
from robust_attn.types import UserError


def test_prose_is_plenty_of_english_and_always_the_same():
    text = prose()
    assert text == prose()
    assert len(text) > 300_000
    assert text.count(" the ") > 1000


@given(tokens=st.integers(1, 20), samples=st.integers(1, 20), spare=st.integers(0, 100))
def test_windows_have_exactly_the_length_and_do_not_overlap(tokens, samples, spare):
    ids = list(range(tokens * samples + spare))
    found = windows(ids, tokens, samples)
    assert found.shape == (samples, tokens)
    assert found.dtype is torch.int64
    assert torch.equal(found - found[:, :1], torch.arange(tokens).expand(samples, tokens))  # consecutive
    assert found.flatten().unique().numel() == tokens * samples  # no id twice
    gaps = found[1:, 0] - found[:-1, 0]
    assert samples == 1 or gaps.unique().numel() == 1  # evenly spread
    assert samples * tokens * 2 > len(ids) or samples == 1 or int(gaps[0]) >= 2 * tokens  # over the whole stream


@given(tokens=st.integers(1, 20), samples=st.integers(1, 20), spare=st.integers(0, 100))
def test_windows_are_the_ids_of_the_spans(tokens, samples, spare):
    ids = list(range(5, 5 + tokens * samples + spare))
    assert windows(ids, tokens, samples).tolist() == [ids[span] for span in spans(len(ids), tokens, samples)]


def test_too_little_text_is_refused_with_both_numbers():
    with pytest.raises(UserError, match="text has 11 tokens, but 3 samples of 4 tokens need 12"):
        windows(list(range(11)), 4, 3)
    assert windows(list(range(12)), 4, 3).shape == (3, 4)


@pytest.mark.parametrize(("tokens", "samples"), [(0, 1), (1, 0), (-1, 2)])
def test_counts_below_one_are_refused(tokens, samples):
    with pytest.raises(UserError, match="at least 1"):
        windows([1, 2, 3], tokens, samples)


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
    with pytest.raises(UserError, match="cannot be read"):
        read_text(tmp_path)

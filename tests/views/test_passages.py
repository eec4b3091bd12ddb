"""Samples as text: how far each token moved, and whether it was split."""

from dataclasses import replace

import pytest

from robust_attn.records.parts import Motion
from robust_attn.views import passages as passages_module
from robust_attn.views.passages import SAMPLES_SHOWN, TOKENS_OF_A_SAMPLE, passages_of
from tests.records.samples import attack_record

from .runs import moved

WORDS = ["the", "assert", "##ion", "</style>", "<script>alert(1)</script>", "."]


def only(line, inputs=None):
    (passage,) = passages_of([line], inputs or {}).every
    return passage


def test_tokens_read_as_text_and_are_as_dark_as_they_moved():
    line = moved([0.01, 0.04, 0.0, 0.02, 0.0, 0.0])
    passage = only(line, {"6": [WORDS]})
    read = "".join((" " if token.spaced else "") + token.text for token in passage.tokens)
    assert read == "the assertion </style> <script>alert(1)</script>."
    assert [token.strength for token in passage.tokens] == [0.25, 1.0, 0.0, 0.5, 0.0, 0.0]
    assert [token.text for token in passage.most[:3]] == ["assert", "</style>", "the"]
    assert not any(token.split for token in passage.tokens)


def test_a_passage_goes_by_its_row_where_it_is_one():
    line = moved([0.1, 0.2])
    names = [only(replace(line, **facts)).named for facts in ({"sample": 3}, {"row": 7}, {"row": 7, "label": "spam"})]
    assert names == ["sample 3", "row 7", "row 7, label spam"]
    assert "row 7" in str(passages_of([replace(line, row=7)], {}).table.rows[0][1])


def test_byte_level_tokens_bring_their_own_spaces():
    passage = only(moved([0.1] * 5), {"5": [["At", "tention", " is", "\n\n", " "]]})
    assert "".join((" " if token.spaced else "") + token.text for token in passage.tokens) == "Attention is ↵↵ ␣"


def test_a_split_is_marked_only_where_parts_parted():
    line = moved(
        [0.1, 0.1, 0.1], apart=[0.0, 0.05, 0.09], share=[0.5, 0.5, 0.0031], farthest=[0.1, 0.1, 1.5], parts=[2, 2, 2]
    )
    passage = only(line)
    assert [token.mark for token in passage.tokens] == ["", "×2", "0.310 %"]
    assert "split into 2 pieces that went 0.0900 apart; the farthest, 0.310 % of the token, went 1.50" in (
        passage.tokens[2].words
    )
    assert not passage.together
    whole = moved([0.1, 0.2], parts=[2, 2])
    assert only(whole).together


def test_without_text_tokens_go_by_their_numbers():
    passages = passages_of([moved([0.1, 0.2])], {"2": None})
    assert not passages.worded
    assert [token.text for token in passages.every[0].tokens] == ["0", "1"]


@pytest.mark.parametrize(
    "motion",
    [
        None,
        Motion(rms=(), apart=(), farthest=(), share=(), parts=()),
        Motion(rms=(1.0,), apart=(0.0,), farthest=(1.0,), share=(None,), parts=(1,)),
        Motion(rms=(1.0,), apart=(), farthest=(1.0,), share=(0.5,), parts=(1,)),
    ],
)
def test_a_motion_that_is_not_whole_is_left_out(motion):
    assert passages_of([attack_record(motion=motion)], {}) is None


def test_inputs_that_do_not_fit_the_record_are_not_believed():
    for inputs in ({"2": [["a"]]}, {"2": []}, {"2": "ab"}, {"3": [["a", "b"]]}):
        assert not passages_of([moved([0.1, 0.2])], inputs).worded


def test_a_page_never_holds_more_tokens_than_it_may_and_says_so(monkeypatch):
    monkeypatch.setattr(passages_module, "TOKENS_SHOWN", 5 * TOKENS_OF_A_SAMPLE)
    lines = [moved([0.1] * 700, layer=layer, sample=sample) for layer in range(4) for sample in range(2)]
    passages = passages_of(lines, {})
    assert [len(part) for part in passages.by_layer.values()] == [2, 1, 1, 1]
    assert sum(len(passage.tokens) for passage in passages.every) == 5 * TOKENS_OF_A_SAMPLE
    assert {passage.hidden for passage in passages.every} == {700 - TOKENS_OF_A_SAMPLE}
    assert passages.hidden == 3


def test_of_a_layer_the_worst_samples_are_shown():
    lines = [replace(moved([0.1], sample=sample), tightness=sample / 100) for sample in range(SAMPLES_SHOWN + 4)]
    shown = [passage.sample for passage in passages_of(lines, {}).every]
    assert shown == list(range(4, SAMPLES_SHOWN + 4))


def test_the_layer_shown_first_is_the_one_that_asks_for_attention():
    lines = [replace(moved([0.1], layer), tightness=layer / 10) for layer in (0, 2, 1)]
    assert passages_of(lines, {}).first == 2


def test_the_table_names_the_tokens_that_moved_most():
    passages = passages_of([moved([0.25, 0.0, 0.5])], {"3": [["a", "b", "c"]]})
    assert [[cell.shown for cell in row][3:5] for row in passages.table.rows] == [["c", "0.500"], ["a", "0.250"]]

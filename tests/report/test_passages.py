import json
from pathlib import Path
from typing import Any

import pytest

from robust_attn.report import passages as passages_module
from robust_attn.report import write_report
from robust_attn.report.load import load_run
from robust_attn.report.passages import (
    SAMPLES_SHOWN,
    TOKENS_OF_A_SAMPLE,
    Passage,
    Passages,
    passages_of,
)
from robust_attn.report.rows import rows_of

from .sample_runs import moved_record, write_inputs, write_run
from .test_html import Page

WORDS = ["the", "assert", "##ion", "</style>", "<script>alert(1)</script>", "."]


def found(folder: Path, lines: list[dict[str, Any]], inputs: dict[str, Any] | None = None) -> Passages:
    write_run(folder, lines)
    if inputs is not None:
        write_inputs(folder, inputs)
    run = load_run(folder)
    return passages_of(run, run.records, rows_of(run.records))


def only(passages: Passages) -> Passage:
    (passage,) = passages.every
    return passage


def test_tokens_read_as_text_and_are_as_dark_as_they_moved(tmp_path: Path) -> None:
    line = moved_record([0.01, 0.04, 0.0, 0.02, 0.0, 0.0])
    passage = only(found(tmp_path / "run", [line], {"6": [WORDS]}))
    read = "".join((" " if token.spaced else "") + token.text for token in passage.tokens)
    assert read == "the assertion </style> <script>alert(1)</script>."
    assert [token.strength for token in passage.tokens] == [0.25, 1.0, 0.0, 0.5, 0.0, 0.0]
    assert [token.text for token in passage.most[:3]] == ["assert", "</style>", "the"]
    assert not any(token.split for token in passage.tokens)


def test_byte_level_tokens_bring_their_own_spaces(tmp_path: Path) -> None:
    passage = only(found(tmp_path / "run", [moved_record([0.1] * 5)], {"5": [["At", "tention", " is", "\n\n", " "]]}))
    assert "".join((" " if token.spaced else "") + token.text for token in passage.tokens) == "Attention is ↵↵ ␣"


def test_a_split_is_marked_only_where_parts_parted(tmp_path: Path) -> None:
    line = moved_record(
        [0.1, 0.1, 0.1], apart=[0.0, 0.05, 0.09], share=[0.5, 0.5, 0.0031], farthest=[0.1, 0.1, 1.5], parts=[2, 2, 2]
    )
    passage = only(found(tmp_path / "run", [line]))
    assert [token.mark for token in passage.tokens] == ["", "×2", "0.310 %"]
    assert "split into 2 parts that went 0.0900 apart; the farthest, 0.310 % of the token, went 1.50" in (
        passage.tokens[2].words
    )
    assert not passage.together
    whole = moved_record([0.1, 0.2], parts=[2, 2])
    assert only(found(tmp_path / "whole", [whole])).together


def test_without_text_tokens_go_by_their_numbers(tmp_path: Path) -> None:
    passages = found(tmp_path / "run", [moved_record([0.1, 0.2])], {"2": None})
    assert not passages.worded
    assert [token.text for token in only(passages).tokens] == ["0", "1"]


@pytest.mark.parametrize(
    "motion",
    [None, 3, {}, {"rms": [1.0]}, {"rms": [1.0], "apart": [0.0], "farthest": [1.0], "share": [None], "parts": [1]}],
)
def test_a_motion_that_is_not_whole_is_left_out(tmp_path: Path, motion: object) -> None:
    assert found(tmp_path / "run", [moved_record([0.1]) | {"motion": motion}]).every == ()


def test_inputs_that_do_not_fit_the_record_are_not_believed(tmp_path: Path) -> None:
    for number, inputs in enumerate(({"2": [["a"]]}, {"2": []}, {"2": "ab"}, {"3": [["a", "b"]]})):
        assert not found(tmp_path / str(number), [moved_record([0.1, 0.2])], inputs).worded


def test_a_page_never_holds_more_tokens_than_it_may_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passages_module, "TOKENS_SHOWN", 5 * TOKENS_OF_A_SAMPLE)
    lines = [moved_record([0.1] * 700, layer=layer, sample=sample) for layer in range(4) for sample in range(2)]
    passages = found(tmp_path / "run", lines)
    assert [len(part) for part in passages.by_layer.values()] == [2, 1, 1, 1]
    assert sum(len(passage.tokens) for passage in passages.every) == 5 * TOKENS_OF_A_SAMPLE
    assert {passage.hidden for passage in passages.every} == {700 - TOKENS_OF_A_SAMPLE}
    assert passages.hidden == 3


def test_of_a_layer_the_worst_samples_are_shown(tmp_path: Path) -> None:
    lines = [moved_record([0.1], sample=sample) | {"tightness": sample / 100} for sample in range(SAMPLES_SHOWN + 4)]
    shown = [passage.sample for passage in found(tmp_path / "run", lines).every]
    assert shown == list(range(4, SAMPLES_SHOWN + 4))


def test_the_page_escapes_tokens_and_names_every_layer(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [moved_record([0.1] * 6, layer=layer) for layer in (2, 7)])
    write_inputs(folder, {"6": [WORDS]})
    text = write_report(folder).read_text(encoding="utf-8")
    page = Page(text)
    assert page.tags.count("script") == 1
    assert page.tags.count("style") == text.count("</style>")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert page.tags.count("input") == 2
    assert {"passages-2", "passages-7"} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))


def test_a_run_without_motion_has_no_such_section(tmp_path: Path) -> None:
    text = write_report(write_run(tmp_path / "run")).read_text(encoding="utf-8")
    assert "Which tokens the attack moved" not in text


def test_cut_inputs_do_not_stop_a_report(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [moved_record([0.1, 0.2])])
    (folder / "inputs.json").write_text(json.dumps({"2": [["a", "b"]]})[:-3], encoding="utf-8")
    assert "tokens go by their numbers" in write_report(folder).read_text(encoding="utf-8")

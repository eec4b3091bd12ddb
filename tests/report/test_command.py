"""`python -m robust_attn.report` as a script meets it."""

from dataclasses import replace

import pytest

from robust_attn.report.__main__ import main
from robust_attn.types import ExitStatus, Verdict
from tests.records.samples import attack_record, prediction_record

from .folders import write_run, write_sweep
from .pages import Page


def test_conditions_are_judged_over_a_run_that_was_given_none(tmp_path, capsys):
    folder = write_run(
        tmp_path / "run", [prediction_record(0, row=4), prediction_record(1, certified_radius={"all": 1.0})]
    )
    assert main([str(folder), "--fail-if", "certified_radius<0.5"]) is ExitStatus.FAIL_IF
    shown = capsys.readouterr()
    assert shown.err == "robust_attn.report: fail_if: certified_radius<0.5 holds at row 4 (unproved)\n"
    for name in ("report.html", "report.md"):
        assert "row 4 (unproved)" in (folder / name).read_text()
    assert main([str(folder), "--fail-if", "flip_radius>0.5"]) is ExitStatus.OK


def test_places_of_a_sweep_name_their_run(tmp_path, capsys):
    folder = write_sweep(tmp_path / "sweep", lengths=(16,))
    assert main([str(folder), "--fail-if", "tightness<0.9", "--fail-if", "output_change>5"]) is ExitStatus.FAIL_IF
    assert "tightness<0.9 holds at 0: layer 0 sample 0 (0.75)" in capsys.readouterr().err
    assert "0: layer 0, sample 0" in (folder / "report.md").read_text()


@pytest.mark.parametrize(
    ("fields", "finished", "status"),
    [
        ({"verdict": Verdict.VIOLATED}, True, ExitStatus.VIOLATED),
        ({"verdict": Verdict.UNKNOWN}, True, ExitStatus.FAILED),
        ({}, False, ExitStatus.FAILED),
        ({}, True, ExitStatus.FAIL_IF),
    ],
)
def test_a_violation_and_a_failure_outrank_a_condition(fields, finished, status, tmp_path):
    folder = write_run(tmp_path / "run", [attack_record(**fields)], finished=finished)
    assert main([str(folder), "--fail-if", "tightness<1"]) is status
    assert main([str(folder)]) is ExitStatus.OK


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "no folder"),
        (["{run}", "--fail-if", "nonsense"], "is no condition"),
        (["{run}", "--fail-if", "flip_radius<1"], "no record can be judged by flip_radius<1"),
        (["{run}", "{run}"], "two folders of one run each with --compare"),
    ],
)
def test_wrong_input_is_one_sentence_and_status_two(arguments, words, tmp_path, capsys):
    run = write_run(tmp_path / "run", [attack_record()])
    assert main([each.format(run=run) for each in arguments]) is ExitStatus.WRONG_CONFIGURATION
    (sentence,) = capsys.readouterr().err.splitlines()
    assert words in sentence


def test_two_runs_side_by_side(tmp_path, capsys):
    records = [prediction_record(n, row=n) for n in range(4)]
    first = write_run(tmp_path / "first", records)
    second = write_run(tmp_path / "second", [replace(r, flip_radius={"move": 0.07}) for r in records])
    before = {path: path.read_bytes() for path in first.rglob("*") if path.is_file()}
    assert main([str(first), str(second), "--compare"]) is ExitStatus.OK
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == str(second / "compare.html")
    assert "flip_radius.move" in out
    page = (second / "compare.html").read_text()
    assert {*page_ids(page)} >= {"difference-table", "pairs-table", "figure-compare-flip_radius-move"}
    assert "flip\\_radius.move" in (second / "compare.md").read_text()
    assert (
        (second / "compare.csv")
        .read_text()
        .startswith("place,quantity,a,b,difference\nrow 0,flip_radius.move,0.062,0.07,")
    )
    assert (second / "figures" / "compare-flip_radius-move.png").is_file()
    assert before == {path: path.read_bytes() for path in first.rglob("*") if path.is_file()}
    main([str(first), str(second), "--compare", "--to", str(tmp_path / "there" / "in")])
    assert (tmp_path / "there" / "in" / "compare.html").is_file()


def page_ids(text: str) -> list[str]:
    return Page(text).ids


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ("nowhere", "there is no folder"),
        ("empty", "is not the folder of a run"),
        ("attack", "has a number that one of"),
        ("", "--compare takes two folders"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence_and_status_two(other, words, tmp_path, capsys):
    run = write_run(tmp_path / "run", [prediction_record()])
    write_run(tmp_path / "attack", [attack_record()])
    (tmp_path / "empty").mkdir()
    second = [str(tmp_path / other)] if other else []
    assert main([str(run), *second, "--compare"]) is ExitStatus.WRONG_CONFIGURATION
    (sentence,) = capsys.readouterr().err.splitlines()
    assert words in sentence

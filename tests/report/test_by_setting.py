from pathlib import Path

from robust_attn.report.by_setting import by_value
from robust_attn.report.load import find_runs
from robust_attn.report.sweep import sweep_of, write_sweep_report

from .sample_runs import record, write_run, write_sweep
from .test_html import Page


def test_best_and_worst_are_those_of_the_runs_with_that_value(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, find_runs(write_sweep(tmp_path, lengths=(8, 16, 128))))
    lengths = [line for line in sweep.values if line.key == "tokens"]
    assert [line.value for line in lengths] == ["8", "16", "128"]  # as numbers, not as words
    for line in lengths:
        gains = [run.gain for run in sweep.runs if run.settings["tokens"] == line.value]
        assert line.gain == (min(gains), max(gains))
        assert line.runs == len(gains) == 4


def test_a_key_that_differs_in_every_run_says_nothing(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, find_runs(write_sweep(tmp_path)))
    assert by_value(sweep.runs[:4], ("tokens",)) == ()


def test_runs_without_numbers_are_counted_and_shown_as_unknown(tmp_path: Path) -> None:
    for number, seed in enumerate("001"):
        write_run(tmp_path / str(number), [record()], overrides=(f"seed={seed}",))
    write_run(tmp_path / "3", [], finished=False, overrides=("seed=1",))
    sweep = sweep_of(tmp_path, find_runs(tmp_path))
    assert [(line.value, line.runs, line.unfinished) for line in sweep.values] == [("0", 2, 0), ("1", 2, 1)]
    page = Page(write_sweep_report(tmp_path).read_text(encoding="utf-8"))
    assert "Best and worst, setting by setting" in page.text

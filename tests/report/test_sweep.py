import subprocess
import sys
import time
from pathlib import Path

import pytest

from robust_attn.report.__main__ import main
from robust_attn.report.load import find_runs
from robust_attn.report.sweep import sweep_of, swept_keys, write_sweep_report

from .sample_runs import constant_record, record, write_run, write_sweep
from .test_html import EVIL, Page


def test_the_settings_that_differ_become_columns(tmp_path: Path) -> None:
    runs = find_runs(write_sweep(tmp_path))
    assert swept_keys(runs) == ("attack", "model", "tokens")
    page = Page(write_sweep_report(tmp_path).read_text(encoding="utf-8"))
    head = page.text[page.text.index("Run attack model tokens Status") :]
    assert head.startswith("Run attack model tokens Status Records Largest gain Observed Certified Tightness Verdicts")
    assert "3 HOLDS" in page.text


def test_a_setting_left_at_its_default_is_read_from_the_run(tmp_path: Path) -> None:
    write_run(tmp_path / "0", overrides=("tokens=64", "seed=1"), summary_fields={"tokens": 64})
    write_run(tmp_path / "1", overrides=())
    sweep = sweep_of(tmp_path, find_runs(tmp_path))
    assert sweep.keys == ("tokens", "seed")
    assert [run.settings for run in sweep.runs] == [{"tokens": "64", "seed": "1"}, {"tokens": "32", "seed": "0"}]


def test_exponents_are_fitted_per_group(tmp_path: Path) -> None:
    trends = sweep_of(tmp_path, find_runs(write_sweep(tmp_path))).trends
    assert len(trends) == 8
    assert all(trend.exponent == pytest.approx(0.25) for trend in trends)
    assert {trend.group for trend in trends} >= {"attack=move, model=gpt2"}


def test_failed_unfinished_and_empty_runs_are_shown_as_such(tmp_path: Path) -> None:
    write_run(tmp_path / "0", [record()])
    write_run(tmp_path / "1", [], summary_fields={"status": "failed", "message": "no such layer <99>"})
    write_run(tmp_path / "2", [record()], finished=False, tail='{"cut')
    text = Page(write_sweep_report(tmp_path).read_text(encoding="utf-8")).text
    assert "1 failed 0 no such layer <99>" in text
    assert "unfinished" in text
    assert "2 runs failed or did not finish" in text
    assert "1 line of records could not be read" in text


def test_markup_in_settings_and_folders_stays_text(tmp_path: Path) -> None:
    write_run(tmp_path / "<b>&", [record(model=EVIL)], overrides=(f"model={EVIL}", "tokens=$x_{"))
    write_run(tmp_path / "1", [record()])
    page = Page(write_sweep_report(tmp_path).read_text(encoding="utf-8"))
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert not [address for address in page.addresses if "//" in address]


def test_a_single_run_gets_its_own_report(tmp_path: Path) -> None:
    report = write_sweep_report(write_run(tmp_path / "run"))
    assert "layer by layer" in report.read_text(encoding="utf-8")


def test_runs_link_to_their_own_reports(tmp_path: Path) -> None:
    from robust_attn.report import write_report

    write_report(write_run(tmp_path / "0", [record()]))
    write_run(tmp_path / "1", [record()])
    page = Page(write_sweep_report(tmp_path).read_text(encoding="utf-8"))
    assert "0/report.html" in page.addresses
    assert "1/report.html" not in page.addresses


def test_the_command_writes_the_report_and_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_sweep(tmp_path, lengths=(16,))
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "report.html")


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_bad_input_is_one_sentence_and_status_two(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    command = [sys.executable, "-m", "robust_attn.report", str(tmp_path / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_help_is_fast() -> None:
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "robust_attn.report", "--help"], capture_output=True, check=True)
    assert b"DIR" in done.stdout
    assert time.perf_counter() - started < 2.0
    heavy = "{'matplotlib', 'wandb', 'jinja2', 'torch'}"
    code = f"import sys, robust_attn.report.__main__; print({heavy} & {{*sys.modules}})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "set()"


def test_a_sweep_of_measurements_compares_them_and_promises_nothing(tmp_path: Path) -> None:
    for number, tokens in enumerate((16, 64, 256)):
        lines = [constant_record(tokens=tokens, value=tokens**0.5)]
        fields = {"task": "lipschitz", "tokens": tokens}
        write_run(tmp_path / str(number), lines, overrides=(f"tokens={tokens}",), summary_fields=fields)
    text = Page(write_sweep_report(tmp_path).read_text(encoding="utf-8")).text
    assert "Measurements compared 3 records, none with a verdict." in text
    assert "Local Lipschitz" in text
    assert "Not every promise" not in text
    (trend,) = sweep_of(tmp_path, find_runs(tmp_path)).trends
    assert (trend.quantity, trend.exponent) == ("lipschitz", pytest.approx(0.5))


def test_a_sweep_over_studies_compares_what_they_measured(tmp_path: Path) -> None:
    for number, radius in enumerate((1, 2, 4)):
        line = {"task": "radius", "radius": radius, "lipschitz": {"lower": radius**2.0}, "tightness": 0.5, "layer": 0}
        fields = {"task": "radius", "model": "single_head"}
        write_run(tmp_path / str(number), [line], overrides=(f"task.radius={radius}",), summary_fields=fields)
    sweep = sweep_of(tmp_path, find_runs(tmp_path))
    assert [run.lipschitz for run in sweep.runs] == [1.0, 4.0, 16.0]
    (trend,) = sweep.trends
    assert (trend.key, trend.exponent) == ("task.radius", pytest.approx(2.0))
    page = Page(write_sweep_report(tmp_path).read_text(encoding="utf-8"))
    assert "figure-constant-task-radius" in page.ids
    assert "Runs that failed" not in page.text


def test_a_setting_that_a_killed_run_never_told_is_not_a_swept_one(tmp_path: Path) -> None:
    write_run(tmp_path / "0", [record()], overrides=("seed=0",))
    write_run(tmp_path / "1", [], finished=False, overrides=("seed=1",))
    assert swept_keys(find_runs(tmp_path)) == ("seed",)


def test_seeds_repeat_a_run_and_are_not_swept_against(tmp_path: Path) -> None:
    places = [(tokens, seed) for tokens in (16, 64, 256) for seed in (1, 2, 3)]
    for number, (tokens, seed) in enumerate(places):
        lines = [constant_record(tokens=tokens, value=tokens**0.5)]
        overrides = (f"tokens={tokens}", f"seed={seed}")
        write_run(tmp_path / str(number), lines, overrides=overrides, summary_fields={"tokens": tokens})
    (trend,) = sweep_of(tmp_path, find_runs(tmp_path)).trends
    assert (trend.key, trend.group, trend.points) == ("tokens", "all runs", 9)
    page = Page(write_sweep_report(tmp_path).read_text(encoding="utf-8"))
    assert "figure-constant-tokens" in page.ids
    assert "figure-constant-seed" not in page.ids
    assert "Run tokens seed Status" in page.text  # still a column

"""Resuming a sweep: a real one, killed with SIGKILL in the middle, against one that nobody disturbed."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from robust_attn.frames import run_rows
from robust_attn.report.load import find_runs
from robust_attn.runs.sweep.resume import (
    LOCK,
    Earlier,
    begin,
    earlier_runs,
    is_finished,
    lost_run,
    marked_under_way,
    set_aside,
    vacate,
    withdraw,
)
from tests.test_cli import ENVIRONMENT, ROOT, command

SWEEP = ("-m", "model=toy", "tracker=none", "samples=4", "attack=move,random", "tokens=6,7", "certificate.seed=0")


def write_run(folder: Path, config: str, records: int = 0, summary: dict[str, object] | None = None) -> Path:
    (folder / ".hydra").mkdir(parents=True)
    (folder / ".hydra" / "config.yaml").write_text(config)
    (folder / "records.jsonl").write_text('{"layer": 0}\n' * records)
    if summary is not None:
        (folder / "summary.json").write_text(json.dumps(summary))
        (folder / "report.html").write_text("<p>report</p>")
    return folder


def final_table(sweep: Path) -> list[dict[str, Any]]:
    """Every record of every run with what was typed for it and how it ended; not the names of folders."""
    rows = [{key: value for key, value in row.items() if key != "run"} for row in run_rows(sweep)]
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def bytes_by_settings(sweep: Path) -> list[tuple[str, bytes]]:
    """The records of every run, byte for byte, under what was typed for it; a job that ran twice is there twice."""
    folders = [path.parent for path in sweep.rglob("records.jsonl")]
    return sorted(((f / ".hydra" / "overrides.yaml").read_text(), (f / "records.jsonl").read_bytes()) for f in folders)


def kill_in_the_middle_of_job_two(sweep: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "robust_attn", *SWEEP, f"hydra.sweep.dir={sweep}"], cwd=sweep.parent,
        env={**ENVIRONMENT, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 200
    while not list(sweep.glob("2-*/records.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.slow
def test_a_killed_sweep_resumed_has_the_records_of_an_undisturbed_one(tmp_path):
    """Jobs 0 and 1 were finished, 2 was under way, 3 had not begun: exactly 2 and 3 run, and nothing is lost."""
    sweep = tmp_path / "killed"
    kill_in_the_middle_of_job_two(sweep)
    assert sorted(path.parent.name[0] for path in sweep.glob("*/summary.json")) == ["0", "1"]
    before = {path: path.read_bytes() for path in sweep.rglob("*") if path.is_file() and path.parent.name[0] in "01"}
    half = next(sweep.glob("2-*/records.jsonl")).read_bytes()
    done = command(*SWEEP, f"sweep.resume={sweep}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("finished before, not run again") == 2
    assert sorted(path.name.split("-")[3] for path in sweep.glob("resumed-*")) == ["2", "3"]
    assert all(path.read_bytes() == content for path, content in before.items())
    assert next((tmp_path / "killed.unfinished").glob("2-*/records.jsonl")).read_bytes() == half
    assert command(*SWEEP, f"hydra.sweep.dir={tmp_path / 'whole'}", cwd=tmp_path).returncode == 0
    whole = tmp_path / "whole"
    assert len(bytes_by_settings(whole)) == 4
    assert bytes_by_settings(sweep) == bytes_by_settings(whole)
    assert {row["status"] for row in final_table(whole)} == {"complete"}
    assert final_table(sweep) == final_table(whole)
    assert len(find_runs(sweep)) == 4  # nothing of the killed job is left where a report would find it


@pytest.mark.parametrize(
    ("records", "summary", "finished"),
    [
        (2, {"status": "complete", "records": 2}, True),
        (0, {"status": "complete", "records": 0}, True),
        (1, {"status": "complete", "records": 2}, False),  # a record was lost with the disk's cache
        (2, {"status": "failed", "records": 2}, False),
        (2, {"status": "interrupted", "records": 2}, False),
        (2, {"records": 2}, False),
        (2, None, False),
    ],
)
def test_only_a_complete_run_with_all_its_records_is_finished(records, summary, finished, tmp_path):
    assert is_finished(write_run(tmp_path / "run", "", records, summary)) is finished


def test_a_summary_cut_in_the_middle_is_not_finished(tmp_path):
    write_run(tmp_path, "", 1)
    (tmp_path / "summary.json").write_text('{"status": "complete", "records": 1')
    assert not is_finished(tmp_path)


def test_a_line_that_cannot_be_read_is_not_finished_although_the_lines_are_as_many(tmp_path):
    """What a disk that lost its cache leaves: zeros where a record was."""
    folder = write_run(tmp_path / "run", "", 2, {"status": "complete", "records": 2})
    assert is_finished(folder)
    (folder / "records.jsonl").write_bytes(b'{"layer": 0}\n' + b"\0" * 12 + b"\n")
    assert not is_finished(folder)


def test_a_run_that_was_killed_between_summary_and_report_is_not_finished(tmp_path):
    folder = write_run(tmp_path / "run", "", 2, {"status": "complete", "records": 2})
    (folder / "report.html").unlink()
    assert not is_finished(folder)


def test_earlier_runs_are_told_apart_by_their_whole_configuration(tmp_path):
    complete = {"status": "complete", "records": 1}
    job = write_run(tmp_path / "new", "tokens: 4\n")
    same = write_run(tmp_path / "a", "tokens: 4\n", 1, complete)
    write_run(tmp_path / "b", "tokens: 8\n", 1, complete)
    cut = write_run(tmp_path / "deep" / "c", "tokens: 4\n", 1)
    busy = write_run(tmp_path / "d", "tokens: 4\n", 1)
    with marked_under_way(busy):
        found = earlier_runs(job, tmp_path)
    assert (found.finished, found.under_way, found.unfinished) == ((same,), (busy,), (cut,))
    assert earlier_runs(job, tmp_path).unfinished == (busy, cut)  # the lock went with its holder


def test_without_a_configuration_nothing_is_taken_for_the_same_job(tmp_path):
    """hydra.output_subdir=null: nothing to compare, so the job runs."""
    write_run(tmp_path / "a", "tokens: 4\n", 1, {"status": "complete", "records": 1})
    (tmp_path / "new").mkdir()
    assert earlier_runs(tmp_path / "new", tmp_path).finished == ()


def test_setting_aside_keeps_every_byte_and_never_overwrites(tmp_path):
    sweep = tmp_path / "sweep"
    for number in (1, 2, 3):
        place = set_aside(write_run(sweep / "a", f"try: {number}\n", number), sweep)
        assert (place / "records.jsonl").read_text().count("\n") == number
    assert sorted(p.name for p in (tmp_path / "sweep.unfinished").iterdir()) == ["a", "a-2", "a-3"]
    assert list(sweep.iterdir()) == []


def test_withdrawing_removes_an_empty_job_but_never_a_run(tmp_path):
    run = write_run(tmp_path / "run", "", 1)
    withdraw(run)
    assert (run / "records.jsonl").exists()
    (run / "records.jsonl").unlink()
    withdraw(run)
    assert not run.exists()


def test_a_lock_that_somebody_else_holds_does_not_stop_a_job(tmp_path):
    with FileLock(tmp_path / LOCK), marked_under_way(tmp_path):
        pass


def begun(folder: Path, token: str, **run: Any) -> Path:
    """A run that the sweep `token` began."""
    folder.mkdir(parents=True)
    begin(folder, token)
    return write_run(folder, "a: 1", **run)


def test_a_job_that_the_same_sweep_began_before_was_lost(tmp_path):
    job = begun(tmp_path / "sweep" / "0", "this")
    assert lost_run(job, "this") == Earlier(unfinished=(job,))
    assert lost_run(job, "another") == Earlier()
    with marked_under_way(job):
        assert lost_run(job, "this") == Earlier(under_way=(job,))
    assert lost_run(tmp_path / "sweep" / "1", "this") == Earlier()


def test_a_job_lost_after_its_end_is_finished(tmp_path):
    job = begun(tmp_path / "sweep" / "0", "this", records=2, summary={"status": "complete", "records": 2})
    assert lost_run(job, "this") == Earlier(finished=(job,))


def test_a_folder_with_a_run_in_it_stays_whose_it_was(tmp_path):
    job = begun(tmp_path / "sweep" / "0", "first", records=1)
    begin(job, "second")
    assert lost_run(job, "second") == Earlier()
    assert lost_run(job, "first").unfinished == (job,)


def test_a_lost_run_makes_way_whole_and_its_folder_is_as_hydra_made_it(tmp_path):
    job = begun(tmp_path / "sweep" / "0", "this", records=1)
    before = {path.relative_to(job): path.read_bytes() for path in job.rglob("*") if path.is_file()}
    place = vacate(job, tmp_path / "sweep")
    assert place.parent == tmp_path / "sweep.unfinished"
    assert {path.relative_to(place): path.read_bytes() for path in place.rglob("*") if path.is_file()} == before
    assert [str(path.relative_to(job)) for path in job.rglob("*") if path.is_file()] == [".hydra/config.yaml"]
    assert lost_run(job, "this") == Earlier()

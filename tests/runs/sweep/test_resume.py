"""Resuming a sweep: a real one, killed with SIGKILL in the middle, against one that nobody disturbed."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from robust_attn.records.frames import run_rows
from robust_attn.records.store import find_runs
from robust_attn.types import ExitStatus
from tests.faults.command import TINY, command
from tests.test_cli import ENVIRONMENT, ROOT
from tests.test_cli import command as process

SWEEP = ("-m", "model=toy", "tracker=none", "samples=4", "attack=move,random", "tokens=6,7", "certificate.seed=0")


def final_table(sweep: Path) -> list[dict[str, Any]]:
    """Every record of every run with what was typed for it and how it ended."""
    return sorted(run_rows(sweep), key=lambda row: json.dumps(row, sort_keys=True))


def records(sweep: Path) -> dict[str, bytes]:
    """The records of every run, byte for byte, under its name."""
    return {path.parent.name: path.read_bytes() for path in sweep.rglob("records.jsonl")}


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


def kill_in_the_middle_of_job_two(sweep: Path) -> None:
    running = subprocess.Popen(
        [sys.executable, "-m", "robust_attn", *SWEEP, f"hydra.sweep.dir={sweep}"], cwd=sweep.parent,
        env={**ENVIRONMENT, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 200
    while len(list(sweep.glob("*/records.jsonl"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    running.wait()


@pytest.mark.slow
def test_a_killed_sweep_resumed_has_the_records_of_an_undisturbed_one(tmp_path):
    """Jobs 0 and 1 were finished, 2 was under way, 3 had not begun: exactly 2 and 3 run, and nothing is lost."""
    sweep = tmp_path / "killed"
    kill_in_the_middle_of_job_two(sweep)
    finished = [path.parent for path in sweep.glob("*/summary.json")]
    assert sorted(path.name[:8] for path in finished) == ["move-toy", "move-toy"]
    before = {path: content for folder in finished for path, content in files(folder).items()}
    (half,) = (path for path in sweep.glob("random-toy-*") if (path / "records.jsonl").exists())
    left = (half / "records.jsonl").read_bytes()
    done = process(*SWEEP, f"sweep.resume={sweep}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("finished before, not run again") == 2
    assert all(path.read_bytes() == content for path, content in before.items())
    assert (tmp_path / "killed.unfinished" / half.name / "records.jsonl").read_bytes() == left
    assert process(*SWEEP, f"hydra.sweep.dir={tmp_path / 'whole'}", cwd=tmp_path).returncode == 0
    whole = tmp_path / "whole"
    assert len(records(whole)) == 4
    assert records(sweep) == records(whole)
    assert {row["status"] for row in final_table(whole)} == {"complete"}
    assert final_table(sweep) == final_table(whole)
    assert len(find_runs(sweep)) == 4  # nothing of the killed job is left where a report would find it


def test_a_sweep_into_the_same_folder_does_only_what_is_missing(tmp_path, monkeypatch, capsys):
    """In this process: with the settings in another order, with one given twice, with one cut and one more."""

    def sweep(*arguments: str) -> tuple[ExitStatus, list[str]]:
        return command(monkeypatch, capsys, tmp_path, "-m", *TINY, *arguments)

    assert sweep("seed=0,1,0", "hydra.sweep.dir=here")[0] is ExitStatus.OK
    first = records(tmp_path / "here")
    assert len(first) == 2  # the same settings are the same job
    cut, kept = (tmp_path / "here" / name for name in sorted(first))
    (cut / "report.html").unlink()
    before = files(kept)
    assert sweep("tolerance=null", "seed=2,1,0", "sweep.resume=here")[0] is ExitStatus.OK
    assert len(records(tmp_path / "here")) == 3
    assert files(kept) == before
    assert (cut / "report.html").is_file()
    assert [path.name for path in (tmp_path / "here.unfinished").iterdir()] == [cut.name]
    assert f"{len(find_runs(tmp_path / 'here'))} runs compared" in (tmp_path / "here" / "report.html").read_text()


@pytest.mark.slow
def test_names_that_do_not_tell_jobs_apart_mix_nothing(tmp_path, monkeypatch, capsys):
    """The second job is refused the folder of the first, and finds it finished only when it is the same job."""

    def sweep(seeds: str) -> tuple[ExitStatus, list[str]]:
        place = ("hydra.sweep.dir=here", "hydra.sweep.subdir='${tokens}'")
        return command(monkeypatch, capsys, tmp_path, "-m", *TINY, f"seed={seeds}", *place)

    status, sentences = sweep("0,1")
    assert status is ExitStatus.WRONG_CONFIGURATION
    assert len(sentences) == 1
    assert "already holds a run" in sentences[0]
    before = files(tmp_path / "here" / "4")
    assert sweep("0")[0] is ExitStatus.OK
    assert files(tmp_path / "here" / "4") == before
    assert not (tmp_path / "here.unfinished").exists()

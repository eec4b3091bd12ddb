"""Resuming a sweep: a real one, killed with SIGKILL in the middle, against one that nobody disturbed."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock

from robust_attn.sweep.objective import objective_of
from robust_attn.sweep.outcomes import collect_outcomes, leave_outcome
from robust_attn.sweep.request import SweepRequest, resumed_arguments, sweep_request
from robust_attn.sweep.resume import LOCK, earlier_runs, is_finished, marked_under_way, set_aside, withdraw
from robust_attn.sweep.threads import threads_per_job
from robust_attn.types import ExitStatus, Outcome
from tests.test_cli import ENVIRONMENT, ROOT, command, one_sentence

SWEEP = ("-m", "model=toy", "tracker=none", "samples=4", "attack=move,random", "tokens=6,7")


def write_run(folder: Path, config: str, records: int = 0, summary: dict[str, object] | None = None) -> Path:
    (folder / ".hydra").mkdir(parents=True)
    (folder / ".hydra" / "config.yaml").write_text(config)
    (folder / "records.jsonl").write_text('{"layer": 0}\n' * records)
    if summary is not None:
        (folder / "summary.json").write_text(json.dumps(summary))
    return folder


def records_by_settings(sweep: Path) -> dict[str, bytes]:
    """The records of every run of a sweep, under what was typed for it."""
    folders = [path.parent for path in sweep.rglob("summary.json")]
    return {(f / ".hydra" / "overrides.yaml").read_text(): (f / "records.jsonl").read_bytes() for f in folders}


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
    whole = records_by_settings(tmp_path / "whole")
    assert len(whole) == 4
    assert records_by_settings(sweep) == whole


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sweep.resume=nowhere", "-m"], ["no folder nowhere"]),
        (["sweep.resume=."], ["needs -m"]),
        (["sweep.resumee=."], ["no setting 'sweep.resumee'", "sweep.resume"]),
        (["sweep.objective=speed"], ["gain, tightness", "speed"]),
    ],
)
def test_a_wrong_request_is_one_sentence(arguments, words, tmp_path):
    one_sentence(command(*arguments, cwd=tmp_path), *words)


def test_the_request_leaves_the_command_line(tmp_path):
    request, rest = sweep_request(["-m", f"sweep.resume='{tmp_path}'", "tokens=4,8", "sweep.objective=tightness"])
    assert request == SweepRequest(tmp_path, "tightness")
    assert rest == ["-m", "tokens=4,8"]


def test_a_resumed_sweep_writes_into_its_folder_and_never_into_an_earlier_run():
    """Hydra writes .hydra before a job can look around, so job folders are new whatever names were asked for."""
    given = ["-m", "hydra.sweep.dir=elsewhere", "hydra.sweep.subdir='${tokens}'"]
    assert resumed_arguments(given, Path("/a/it's"), "S") == [
        "-m", r"hydra.sweep.dir='/a/it\'s'", "hydra.sweep.subdir='resumed-S-${tokens}'",
    ]  # fmt: skip


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


def test_outcomes_come_back_in_the_order_of_jobs_and_only_of_this_sweep(tmp_path):
    bad = Outcome(ExitStatus.VIOLATED, "broken")
    for number, outcome in ((10, bad), (2, Outcome(ExitStatus.OK))):
        leave_outcome(tmp_path, "mine", number, outcome)
    leave_outcome(tmp_path, "other", 0, bad)
    assert collect_outcomes(tmp_path, "mine") == [Outcome(ExitStatus.OK), bad]
    assert collect_outcomes(tmp_path, "mine") == []
    assert collect_outcomes(tmp_path, "other") == [bad]
    assert list(tmp_path.iterdir()) == []


def test_the_number_of_a_job_is_its_largest_gain_or_its_loosest_certificate(tmp_path):
    lines = [{"observed": {"gain": g}, "tightness": t} for g, t in ((0.5, 0.9), (0.7, 0.4), (None, None))]
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert objective_of(tmp_path, "gain") is None  # not complete
    (tmp_path / "summary.json").write_text('{"status": "complete"}')
    assert objective_of(tmp_path, "gain") == 0.7
    assert objective_of(tmp_path, "tightness") == 0.4


def test_threads_are_set_only_where_nobody_else_does():
    assert threads_per_job({"_target_": "hydra_plugins.hydra_submitit_launcher.submitit_launcher.LocalLauncher"}) == 1
    assert threads_per_job({"_target_": "x.submitit_launcher.SlurmLauncher", "cpus_per_task": 4}) == 4
    assert threads_per_job({"_target_": "hydra._internal.core_plugins.basic_launcher.BasicLauncher"}) is None

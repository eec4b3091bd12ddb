"""A job is done once: finished ones count, unfinished ones are set aside, those under way are left alone."""

import json
import multiprocessing
import os
import signal
from pathlib import Path

import pytest
from filelock import FileLock

from robust_attn.records.store import line_of
from robust_attn.runs.sweep.job import (
    LOCK,
    SETTINGS,
    Job,
    done_once,
    is_finished,
    set_aside,
    settings_folder,
    sweep_name,
    threads_per_job,
    under_way,
)
from robust_attn.types import ExitStatus, Outcome
from tests.records.samples import attack_record

COMPLETE = {"status": "complete", "records": 1, "exit_status": 0, "message": None}
FRESH = Outcome(ExitStatus.OK, "afresh")


def write_run(folder: Path, records: int = 0, summary: dict[str, object] | None = None) -> Path:
    (folder / SETTINGS).mkdir(parents=True)
    (folder / SETTINGS / "config.yaml").write_text("tokens: 4\n")
    (folder / "records.jsonl").write_text(line_of(attack_record()) * records)
    if summary is not None:
        (folder / "summary.json").write_text(json.dumps(summary))
        (folder / "report.html").write_text("<p>report</p>")
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def never() -> Outcome:
    raise AssertionError("this job was not to run")


def test_a_finished_job_does_not_run_and_counts_as_it_ended(tmp_path, capsys):
    folder = write_run(tmp_path / "a", 1, {**COMPLETE, "exit_status": 3, "message": "broken"})
    before = files(folder)
    found = done_once(Job(folder, tmp_path, same=True), never)
    assert found == (Outcome(ExitStatus.VIOLATED, "broken"), True)
    assert files(folder).items() >= before.items()
    assert "finished before, not run again: a" in capsys.readouterr().out


def test_an_unfinished_job_makes_way_whole_and_runs_again_in_its_folder(tmp_path):
    sweep = tmp_path / "sweep"
    folder = write_run(sweep / "a", 2)
    (folder / "figures").mkdir()
    (folder / "figures" / "x.png").write_bytes(b"x")
    before = files(folder)

    def work():
        assert set(files(folder)) == {LOCK, f"{SETTINGS}/config.yaml"}  # as Hydra makes it
        with under_way(folder) as free:
            assert not free
        return FRESH

    assert done_once(Job(folder, sweep, same=True), work) == (FRESH, True)
    assert files(tmp_path / "sweep.unfinished" / "a") == before


def test_a_job_under_way_is_left_alone_until_its_process_ends(tmp_path):
    folder = write_run(tmp_path / "sweep" / "a", 1)
    job, before = Job(folder, tmp_path / "sweep", same=True), files(folder)
    with FileLock(folder / LOCK):
        outcome, settled = done_once(job, never)
    assert (outcome.status, settled) == (ExitStatus.FAILED, False)
    assert "under way elsewhere" in str(outcome.message)
    assert files(folder) == {**before, LOCK: b""}
    assert done_once(job, lambda: FRESH) == (FRESH, True)


def hold_and_be_killed(folder: Path) -> None:
    with under_way(folder) as free:
        assert free
        os.kill(os.getpid(), signal.SIGKILL)


def test_the_lock_goes_with_a_process_that_is_killed(tmp_path):
    """A launcher that lost a process starts the job again in the same folder."""
    folder = write_run(tmp_path / "sweep" / "a", 1)
    process = multiprocessing.get_context("fork").Process(target=hold_and_be_killed, args=(folder,))
    process.start()
    process.join(60)
    assert process.exitcode == -9
    assert done_once(Job(folder, tmp_path / "sweep", same=True), lambda: FRESH) == (FRESH, True)
    assert (tmp_path / "sweep.unfinished" / "a" / "records.jsonl").exists()


@pytest.mark.parametrize("summary", [COMPLETE, None])
def test_a_folder_with_a_run_of_other_settings_is_neither_counted_nor_moved(summary, tmp_path):
    """Names that somebody chose may not tell jobs apart; the run itself then refuses the folder."""
    folder = write_run(tmp_path / "a", 1, summary)
    before = files(folder)
    assert done_once(Job(folder, tmp_path, same=False), lambda: FRESH) == (FRESH, True)
    assert files(folder).items() >= before.items()


def test_a_file_system_without_locks_costs_no_result(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise NotImplementedError("flock")

    monkeypatch.setattr(FileLock, "acquire", refuse)
    assert done_once(Job(write_run(tmp_path / "a"), tmp_path, same=False), lambda: FRESH) == (FRESH, True)


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
    assert is_finished(write_run(tmp_path / "run", records, summary)) is finished


def test_a_summary_cut_in_the_middle_is_not_finished(tmp_path):
    write_run(tmp_path, 1)
    (tmp_path / "summary.json").write_text('{"status": "complete", "records": 1')
    assert not is_finished(tmp_path)


def test_a_line_that_cannot_be_read_is_not_finished_although_the_lines_are_as_many(tmp_path):
    """What a disk that lost its cache leaves: zeros where a record was."""
    folder = write_run(tmp_path / "run", 2, {"status": "complete", "records": 2})
    assert is_finished(folder)
    (folder / "records.jsonl").write_bytes(line_of(attack_record()).encode() + b"\0" * 12 + b"\n")
    assert not is_finished(folder)


def test_a_run_that_was_killed_between_summary_and_report_is_not_finished(tmp_path):
    folder = write_run(tmp_path / "run", 2, {"status": "complete", "records": 2})
    (folder / "report.html").unlink()
    assert not is_finished(folder)


def test_setting_aside_keeps_every_byte_and_never_overwrites(tmp_path):
    sweep = tmp_path / "sweep"
    for number in (1, 2, 3):
        folder = sweep / "deep" / "a"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "records.jsonl").write_text("{}\n" * number)
        place = set_aside(folder, sweep)
        assert (place / "records.jsonl").read_text().count("\n") == number
        assert list(folder.iterdir()) == []
    assert sorted(p.name for p in (tmp_path / "sweep.unfinished" / "deep").iterdir()) == ["a", "a-2", "a-3"]


def test_hydra_writes_settings_only_where_there_is_no_run(tmp_path):
    assert settings_folder(str(tmp_path)) == settings_folder(str(tmp_path / "nowhere")) == SETTINGS
    (tmp_path / "records.jsonl").touch()
    assert settings_folder(str(tmp_path)) is None


def test_a_sweep_is_named_without_the_paths_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sweep_name(Path("runs/2026-01-02/10-00-00-sweep")) == "2026-01-02/10-00-00-sweep"
    assert sweep_name(tmp_path / "demo") == "demo"
    assert sweep_name(Path("/home/somebody/demo")) == "demo"


def test_threads_are_set_only_where_nobody_else_does():
    assert threads_per_job({"_target_": "hydra_plugins.hydra_submitit_launcher.submitit_launcher.LocalLauncher"}) == 1
    assert threads_per_job({"_target_": "x.submitit_launcher.SlurmLauncher", "cpus_per_task": 4}) == 4
    assert threads_per_job({"_target_": "hydra._internal.core_plugins.basic_launcher.BasicLauncher"}) is None

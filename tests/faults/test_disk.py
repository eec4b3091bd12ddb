"""A disk that is full, a folder that cannot be written, a file that was cut, two runs in one place."""

import errno
import json
import os

import pytest

from robust_attn.records.store import load_run
from robust_attn.report import write_report
from robust_attn.runs.folder import RunFolder
from robust_attn.types import ExitStatus
from tests.faults.command import TINY, command

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_that_fills_up_costs_only_what_did_not_fit(tmp_path, monkeypatch, capsys):
    append, count = RunFolder.append, iter(range(10))

    def filling(self, record):
        if next(count) == 1:
            raise FULL
        append(self, record)

    monkeypatch.setattr(RunFolder, "append", filling)
    status, sentences = command(monkeypatch, capsys, tmp_path, *TINY, "hydra.run.dir=run")
    assert status is ExitStatus.FAILED
    assert len(sentences) == 1
    assert "No space left on device" in sentences[0]
    assert len(load_run(tmp_path / "run").records) == 1
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["status"], summary["exit_status"], summary["records"]) == ("failed", 1, 1)


def test_a_disk_without_room_for_the_end_either_is_still_one_sentence(tmp_path, monkeypatch, capsys):
    """Nothing says that the run is complete: there is no summary, and the report says so."""

    def full(*_):
        raise FULL

    monkeypatch.setattr(RunFolder, "append", full)
    write = RunFolder.write

    def without_summary(self, name, values):
        return full() if name == "summary.json" else write(self, name, values)

    monkeypatch.setattr(RunFolder, "write", without_summary)
    status, sentences = command(monkeypatch, capsys, tmp_path, *TINY, "hydra.run.dir=run")
    assert status is ExitStatus.FAILED
    assert len(sentences) == 1
    assert "No space left on device" in sentences[0]
    assert load_run(tmp_path / "run").status == "unfinished"


@pytest.mark.parametrize("place", ["file/run", "/proc/run"])
def test_a_folder_that_cannot_be_written_is_a_wrong_configuration(place, tmp_path, monkeypatch, capsys):
    """Not by permissions, which root does not have to heed: a file in the way, and a file system that takes none."""
    (tmp_path / "file").write_text("in the way")
    status, sentences = command(monkeypatch, capsys, tmp_path, *TINY, f"hydra.run.dir={place}")
    assert status is ExitStatus.WRONG_CONFIGURATION
    assert len(sentences) == 1
    assert "cannot be written" in sentences[0]


def test_a_line_cut_in_the_middle_is_left_out_and_counted_in_the_report(tmp_path, monkeypatch, capsys):
    command(monkeypatch, capsys, tmp_path, *TINY, "hydra.run.dir=run")
    path = tmp_path / "run" / "records.jsonl"
    path.write_bytes(path.read_bytes()[:-200])
    run = load_run(tmp_path / "run")
    assert (len(run.records), run.damaged_lines) == (1, 1)
    assert "1 line" in " ".join(write_report(tmp_path / "run").read_text().split())


def test_the_second_run_in_a_folder_is_refused_and_changes_nothing(tmp_path, monkeypatch, capsys):
    command(monkeypatch, capsys, tmp_path, *TINY, "hydra.run.dir=run")
    before = {
        path.name: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.suffix in (".jsonl", ".json")
    }
    status, sentences = command(monkeypatch, capsys, tmp_path, *TINY, "hydra.run.dir=run")
    assert status is ExitStatus.WRONG_CONFIGURATION
    assert "already holds a run" in sentences[0]
    assert all((tmp_path / "run" / name).read_bytes() == content for name, content in before.items())

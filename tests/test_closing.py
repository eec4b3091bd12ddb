import json

import pytest
from rich.console import Console

from robust_attn import closing
from robust_attn.closing import close
from robust_attn.experiments.outcome import outcome_of
from robust_attn.runs.folder import RunFolder
from robust_attn.types import ExitStatus
from tests.composed import run

SMALL = ("model=toy", "layers=[0]", "attack=random")


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    _, records, summary, _ = run(tmp_path_factory.mktemp("before") / "run", *SMALL)
    return records, summary


@pytest.fixture
def finished(before, tmp_path):
    """Records and summary of a run, to be closed again in a fresh folder."""
    return *before, RunFolder.claim(tmp_path / "again")


def closed(finished, **changes):
    """What `close` answers and shows for the run with another summary."""
    records, summary, folder = finished
    found = outcome_of({"name": "attack"}, records)
    console = Console(record=True, width=200, quiet=False, file=(folder.path / "screen.txt").open("w"))
    return close(folder, summary | changes, records, found, console), console.export_text()


def test_a_report_that_cannot_be_made_is_a_sentence_and_status_1(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(closing, "write_report", full)
    outcome, records, summary, _ = run(tmp_path / "run", *SMALL)
    assert outcome.status is ExitStatus.FAILED
    assert outcome.message.startswith("the records are complete, but the report could not be written: OSError")
    assert len(records) == summary["records"] == 2


def test_the_summary_is_written_before_the_report(finished, monkeypatch):
    folder = finished[2].path
    seen = []
    monkeypatch.setattr(closing, "write_report", lambda _: seen.append((folder / "summary.json").is_file()) or folder)
    trouble, _ = closed(finished)
    assert trouble is None
    assert seen == [True]


def test_an_interrupted_run_gets_a_report_without_figures(finished):
    folder = finished[2].path
    trouble, shown = closed(finished, status="interrupted")
    assert trouble is None
    assert "report:" in shown
    assert not (folder / "figures").exists()
    assert json.loads((folder / "summary.json").read_text())["status"] == "interrupted"


def test_warnings_are_printed_as_they_are(finished):
    _, shown = closed(finished, warnings=["[red]look[/red]"])
    assert "WARNING: [red]look[/red]" in shown


def test_records_that_amount_to_nothing_are_closed_all_the_same(tmp_path, monkeypatch):
    def broken(*_):
        raise TypeError("None")

    monkeypatch.setattr("robust_attn.run.outcome_of", broken)
    outcome, records, summary, _ = run(tmp_path / "run", *SMALL)
    assert outcome.status is ExitStatus.FAILED
    assert "not what they amount to: TypeError" in outcome.message
    assert len(records) == summary["records"] == 2
    assert (tmp_path / "run" / "report.html").is_file()


def test_a_run_without_records_is_refused(tmp_path):
    outcome, _, summary, _ = run(tmp_path / "run", "model=toy", "task=tightness", "task.radii=[]")
    assert outcome.status is ExitStatus.WRONG_CONFIGURATION
    assert "nothing to do" in outcome.message
    assert summary["status"] == "failed"

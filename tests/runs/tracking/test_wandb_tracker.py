import json
import os
import subprocess
import sys
import threading
import types
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from robust_attn.runs.tracking import Begun, wandb_tracker
from robust_attn.runs.tracking.wandb_tracker import WandbTracker
from robust_attn.types import RunState

from .sample_records import record, summary

ROOT = Path(__file__).resolve().parents[3]
SECRET = "0123456789abcdef0123456789abcdef01234567"
SWEEP = ("-m", "model=toy", "samples=2", "attack.steps=5", "tokens=6,100000000", "hydra.sweep.dir=runs/a_day/sweep")


@cache
def inspected(folder: Path, *flags: str) -> str:
    """What wandb itself reads back from the .wandb file of a run."""
    (file,) = folder.glob("wandb/offline-run-*/*.wandb")
    command = [sys.executable, "-m", "wandb", "leet", "inspect", *flags, "--json", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def job(sweep: Path, tokens: int) -> Path:
    """The folder of the job with so many tokens."""
    (found,) = (path for path in sweep.glob("move-toy-*") if f"tokens={tokens}\n" in typed(path))
    return found


def typed(folder: Path) -> str:
    return (folder / ".hydra" / "overrides.yaml").read_text()


@pytest.fixture(scope="module")
def two_jobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real offline sweep of two jobs in one process, for the second of which there is too little text.

    As an agent of W&B's own sweeps would start it: wandb reads what that chose from a file, into the config.
    """
    folder = tmp_path_factory.mktemp("sweep")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("WANDB")}
    (folder / "chosen.yaml").write_text("wandb_version: 1\nmodel:\n  value: toy\nattack.steps:\n  value: 5\n")
    environment |= {"WANDB_SWEEP_ID": "a_sweep", "WANDB_SWEEP_PARAM_PATH": str(folder / "chosen.yaml")}
    environment |= {"WANDB_API_KEY": SECRET, "TOKEN_OF_A_PERSON": SECRET, "HOME": str(folder / "home_of_a_person")}
    environment |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "robust_attn", *SWEEP]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=folder, timeout=180, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "warning" not in done.stderr
    return folder / "runs" / "a_day" / "sweep"


def test_config_summary_and_state_are_read_back(two_jobs: Path) -> None:
    folder = job(two_jobs, 6)
    told = json.loads(inspected(folder, "--summary"))
    settings, environment = told["config"]["settings"], told["config"]["environment"]
    assert settings["model"] == {"name": "toy", "weights": "auto", "tokenizer": None, "sizes": None}
    assert settings["attack"] == {"name": "move", "steps": 5, "restarts": 1}
    known = json.loads((folder / "environment.json").read_text())
    assert environment == {key: value for key, value in known.items() if value != {}}  # random weights have no SHA-256
    assert {"commit", "weights", "versions"} <= set(environment)
    assert (told["name"], told["exit_code"], told["state"]) == (folder.name, 0, "finished")
    summary = json.loads((folder / "summary.json").read_text())
    for key in ("status", "seconds", "verdicts", "exit_status"):
        assert told["summary"][key] == summary[key]
    records = records_of(folder)
    changes = [change for entry in records for change in entry["convergence"]]
    assert told["summary"]["attack/output_change"] == {"max": max(changes)}
    assert told["summary"]["observed/gain"] == {"max": max(entry["observed"]["gain"] for entry in records)}
    assert told["summary"]["objective/gain"] == max(entry["observed"]["gain"] for entry in records)
    assert told["summary"]["objective/tightness"] == min(entry["tightness"] for entry in records)


def test_settings_stay_nested_beside_what_a_sweep_of_wandb_chose(two_jobs: Path) -> None:
    config = json.loads(inspected(job(two_jobs, 6), "--summary"))["config"]
    assert (config["model"], config["attack.steps"]) == ("toy", 5)
    assert config["settings"]["model"]["name"] == "toy"
    assert config["settings"]["attack"]["steps"] == 5


def records_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]


def test_every_record_step_table_figure_and_file_is_read_back(two_jobs: Path) -> None:
    folder = job(two_jobs, 6)
    lines = [json.loads(line) for line in inspected(folder).splitlines()]
    history = [line["history"]["item"] for line in lines if line["type"] == "history"]
    records = records_of(folder)
    rows = [item for item in history if "certified/output_change" in item]
    assert [(item["record"], item["observed/gain"], item["tightness"]) for item in rows] == [
        (number, entry["observed"]["gain"], entry["tightness"]) for number, entry in enumerate(records)
    ]
    assert not {"schema", "layer", "sample", "tokens", "verdict"} & {key for item in rows for key in item}
    steps = [
        (item["record"], item["attack/step"], item["attack/output_change"]) for item in history if "attack/step" in item
    ]
    assert steps == [(n, step, x) for n, entry in enumerate(records) for step, x in enumerate(entry["convergence"])]
    assert [item["records.nrows"] for item in history if "records.nrows" in item] == [len(records)]
    figures = {key.split(".")[0] for item in history for key in item if key.startswith("figures/")}
    assert figures == {f"figures/{path.stem}" for path in (folder / "figures").glob("*.png")} != set()
    artifacts = [line["artifact"] for line in lines if line["type"] == "artifact"]
    held = {entry["path"] for artifact in artifacts for entry in artifact["manifest"]["contents"]}
    assert {"report.html", "records.jsonl", "records.table.json"} <= held
    (staged,) = (folder / "wandb" / "artifacts" / "staging").iterdir()  # what `wandb sync` will send, and nothing else
    assert str(staged) in {entry["local_path"] for artifact in artifacts for entry in artifact["manifest"]["contents"]}
    columns = json.loads(staged.read_text())["columns"]
    assert {"layer", "sample", "verdict", "observed/gain"} <= set(columns)
    (metric,) = (
        line["metric"]
        for line in lines
        if line["type"] == "metric" and line["metric"]["name"] == "attack/output_change"
    )
    assert metric["step_metric"] == "attack/step"


def test_jobs_of_a_sweep_share_their_group_and_nothing_else(two_jobs: Path) -> None:
    runs = []
    for tokens in (6, 10**8):
        lines = [json.loads(line) for line in inspected(job(two_jobs, tokens)).splitlines()]
        runs += [line["run"] for line in lines if line["type"] == "run"]
    assert [run["run_group"] for run in runs] == ["a_day/sweep", "a_day/sweep"]
    assert [run["job_type"] for run in runs] == ["attack", "attack"]
    assert [set(run["tags"]) for run in runs] == [{"attack", "toy", "move", "wasserstein"}] * 2
    assert len({run["run_id"] for run in runs}) == 2


def test_a_failed_job_is_marked(two_jobs: Path) -> None:
    folder = job(two_jobs, 10**8)
    told = json.loads(inspected(folder, "--summary"))
    assert (told["name"], told["exit_code"], told["state"]) == (folder.name, 1, "failed")
    assert told["summary"]["status"] == "failed"
    assert "fewer samples" in told["summary"]["message"]


def test_no_key_nothing_of_the_environment_and_no_home_folder_is_written(two_jobs: Path) -> None:
    files = [path for path in two_jobs.rglob("*") if path.is_file()]
    assert any(path.suffix == ".wandb" for path in files)
    for path in files:
        assert SECRET.encode() not in path.read_bytes(), path
        assert b"home_of_a_person" not in path.read_bytes(), path


class BrokenRun:
    """A run whose named method fails."""

    id = "x"

    def __init__(self, broken: str, finished: list[int]) -> None:
        self.broken = broken
        self.finished = finished
        self.summary = types.SimpleNamespace(update=lambda _: self._maybe("summary"))
        self.config = types.SimpleNamespace(update=lambda _: self._maybe("config"))

    def _maybe(self, name: str) -> None:
        if name == self.broken:
            raise SystemExit(f"{name} broke\nin two lines")
        if self.broken == f"hanging {name}":
            threading.Event().wait()

    def define_metric(self, *_: object, **__: object) -> None:
        self._maybe("define_metric")

    def log(self, _: object) -> None:
        self._maybe("log")

    def log_artifact(self, _: object) -> None:
        self._maybe("log_artifact")

    def finish(self, exit_code: int) -> None:
        self.finished.append(exit_code)
        self._maybe("finish")


def fake_wandb(broken: str, finished: list[int]) -> types.ModuleType:
    def init(**_: object) -> BrokenRun:
        if broken == "init":
            raise RuntimeError("no network")
        if broken == "hanging init":
            threading.Event().wait()
        return BrokenRun(broken, finished)

    module: Any = types.ModuleType("wandb")
    module.init = init
    module.Settings = type("Settings", (), {"model_fields": {}})
    module.Table = module.Artifact = lambda *_, **__: types.SimpleNamespace(add_file=lambda *_, **__: None)
    return module


def whole_run(folder: Path, warnings: list[str], status: RunState = RunState.COMPLETE) -> None:
    tracker = WandbTracker(mode="offline", project="p", warn=warnings.append)
    tracker.start(Begun(folder))
    tracker.record(record())
    tracker.record(record(1))
    tracker.finish(summary(status), folder)


PLACES = ("init", "define_metric", "log", "summary", "log_artifact", "finish")


@pytest.mark.parametrize("broken", [*PLACES, *(f"hanging {place}" for place in PLACES)])
def test_whatever_breaks_in_wandb_is_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    warnings: list[str] = []
    monkeypatch.setitem(sys.modules, "wandb", fake_wandb(broken, []))
    monkeypatch.setattr(wandb_tracker, "START_SECONDS", 0.2)
    monkeypatch.setitem(wandb_tracker.FINISH_SECONDS, "offline", 0.2)
    whole_run(tmp_path, warnings)
    assert len(warnings) == 1
    assert "\n" not in warnings[0]
    assert "results are on disk" in warnings[0]


@pytest.mark.parametrize("broken", ["log", "summary", "log_artifact"])
def test_a_run_that_was_opened_is_closed_whatever_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    finished: list[int] = []
    monkeypatch.setitem(sys.modules, "wandb", fake_wandb(broken, finished))
    whole_run(tmp_path, [])
    assert finished == [0]


def test_a_machine_without_wandb_still_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    monkeypatch.setitem(sys.modules, "wandb", None)
    whole_run(tmp_path, warnings)
    assert len(warnings) == 1


@pytest.mark.parametrize(("status", "code"), [(RunState.COMPLETE, 0), (RunState.FAILED, 1), (RunState.INTERRUPTED, 1)])
def test_the_end_of_a_run_is_the_end_of_the_wandb_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: RunState, code: int
) -> None:
    finished: list[int] = []
    monkeypatch.setitem(sys.modules, "wandb", fake_wandb("", finished))
    monkeypatch.setattr(wandb_tracker, "INTERRUPTED_SECONDS", 30.0)
    whole_run(tmp_path, [], status)
    assert finished == [code]


def test_after_an_interrupt_no_files_are_handed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody who pressed Ctrl-C waits for the artifact: here handing it over would never end."""
    warnings: list[str] = []
    finished: list[int] = []
    monkeypatch.setitem(sys.modules, "wandb", fake_wandb("hanging log_artifact", finished))
    monkeypatch.setattr(wandb_tracker, "INTERRUPTED_SECONDS", 30.0)
    whole_run(tmp_path, warnings, RunState.INTERRUPTED)
    assert (warnings, finished) == ([], [1])


def test_a_run_goes_on_while_wandb_opens_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here it never will, and `start` has returned all the same, with wandb imported and without a warning."""
    monkeypatch.setitem(sys.modules, "wandb", fake_wandb("hanging init", []))
    monkeypatch.setattr(wandb_tracker, "START_SECONDS", 60.0)
    warnings: list[str] = []
    tracker = WandbTracker(mode="offline", project="p", warn=warnings.append)
    started = threading.Thread(target=tracker.start, args=[Begun(tmp_path)], daemon=True)
    started.start()
    started.join(20.0)
    assert not started.is_alive()
    assert warnings == []


def test_records_are_logged_without_anybody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", fake_wandb("hanging log", []))
    warnings: list[str] = []
    tracker = WandbTracker(mode="offline", project="p", warn=warnings.append)
    tracker.start(Begun(tmp_path))
    for _ in range(3):
        tracker.record(record())
    assert warnings == []  # three records are given to a wandb that hangs, and nobody has waited for it

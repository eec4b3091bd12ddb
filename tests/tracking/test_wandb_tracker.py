import json
import os
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest

from robust_attn.tracking import wandb_tracker
from robust_attn.tracking.wandb_tracker import WandbTracker

from .sample_records import record

SECRET = "0123456789abcdef0123456789abcdef01234567"
SCRIPT = """
import sys
from pathlib import Path
from robust_attn.tracking import make_tracker
sys.path.insert(0, {tests!r})
from sample_records import record
for number in (0, 1):
    folder = Path(sys.argv[1]) / str(number)
    (folder / "figures").mkdir(parents=True)
    (folder / "report.html").write_text("<p>report</p>")
    (folder / "records.jsonl").write_text("{{}}")
    from matplotlib.figure import Figure
    Figure().savefig(folder / "figures" / "layers.png")
    tracker = make_tracker("wandb", "offline", "robust_attn")
    tracker.start(folder, {{"model": {{"name": "toy"}}, "layers": [0, 1], "path": folder}}, f"job{{number}}", "sweep")
    for layer in (0, 1):
        tracker.record(record(layer))
    tracker.finish({{"status": "complete", "seconds": 1.5}}, folder, failed=number == 1)
"""


def inspected(folder: Path, *flags: str) -> str:
    """What wandb itself reads back from the .wandb file of a run."""
    (file,) = folder.glob("wandb/offline-run-*/*.wandb")
    command = [sys.executable, "-m", "wandb", "leet", "inspect", *flags, "--json", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.fixture(scope="module")
def two_jobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real offline sweep of two jobs in one process, the second one failed, with a key in the environment."""
    folder = tmp_path_factory.mktemp("sweep")
    script = SCRIPT.format(tests=str(Path(__file__).parent))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("WANDB")}
    environment |= {"WANDB_API_KEY": SECRET, "WANDB_DATA_DIR": str(folder / "data"), "TOKEN_OF_A_PERSON": SECRET}
    command = [sys.executable, "-c", script, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "warning" not in done.stderr
    return folder


def test_config_summary_group_and_state_are_read_back(two_jobs: Path) -> None:
    told = json.loads(inspected(two_jobs / "0", "--summary"))
    assert told["config"]["model"] == {"name": "toy"}
    assert told["config"]["layers"] == [0, 1]
    assert told["summary"]["status"] == "complete"
    assert told["summary"]["seconds"] == 1.5
    assert (told["name"], told["exit_code"]) == ("job0", 0)
    assert told["state"] == "finished"


def test_every_record_step_table_figure_and_file_is_read_back(two_jobs: Path) -> None:
    lines = [json.loads(line) for line in inspected(two_jobs / "0").splitlines()]
    history = [line["history"]["item"] for line in lines if line["type"] == "history"]
    rows = [item for item in history if "certified.output_change" in item]
    assert [(item["record"], item["layer"], item["observed.gain"], item["tightness"]) for item in rows] == [
        (0, 0, 2.5, 0.83),
        (1, 1, 2.5, 0.83),
    ]
    steps = [(item["attack/step"], item["attack/output_change"]) for item in history if "attack/step" in item]
    assert steps == [(0, 0.01), (1, 0.02), (3, 0.025)] * 2
    assert any("records.ncols" in item for item in history)
    assert any("figures/layers._type" in item for item in history)
    artifacts = [line["artifact"] for line in lines if line["type"] == "artifact"]
    held = {entry["path"] for artifact in artifacts for entry in artifact["manifest"]["contents"]}
    assert {"report.html", "records.jsonl"} <= held
    (run,) = (line["run"] for line in lines if line["type"] == "run")
    assert run["run_group"] == "sweep"


def test_a_failed_job_is_marked_and_jobs_of_one_process_stay_apart(two_jobs: Path) -> None:
    told = json.loads(inspected(two_jobs / "1", "--summary"))
    assert (told["name"], told["exit_code"], told["state"]) == ("job1", 1, "failed")
    assert told["run_id"] != json.loads(inspected(two_jobs / "0", "--summary"))["run_id"]


def test_no_key_and_nothing_of_the_environment_is_written(two_jobs: Path) -> None:
    for path in two_jobs.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path


class BrokenRun:
    """A run whose named method fails."""

    id = "x"

    def __init__(self, broken: str, finished: list[int]) -> None:
        self.broken = broken
        self.finished = finished
        self.summary = types.SimpleNamespace(update=lambda _: self._maybe("summary"))

    def _maybe(self, name: str) -> None:
        if name == self.broken:
            raise SystemExit(f"{name} broke\nin two lines")

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
        if broken == "hang":
            threading.Event().wait()
        return BrokenRun(broken, finished)

    module: Any = types.ModuleType("wandb")
    module.init = init
    module.Settings = type("Settings", (), {"model_fields": {}})
    module.Table = module.Artifact = lambda *_, **__: types.SimpleNamespace(add_file=lambda *_, **__: None)
    return module


def whole_run(folder: Path, warnings: list[str]) -> None:
    tracker = WandbTracker(mode="offline", project="p", warn=warnings.append)
    tracker.start(folder, {}, "name", "")
    tracker.record(record())
    tracker.record(record(1))
    tracker.finish({"status": "complete"}, folder, failed=False)


@pytest.mark.parametrize("broken", ["init", "hang", "define_metric", "log", "summary", "log_artifact", "finish"])
def test_whatever_breaks_in_wandb_is_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    warnings: list[str] = []
    monkeypatch.setitem(sys.modules, "wandb", fake_wandb(broken, []))
    monkeypatch.setattr(wandb_tracker, "START_SECONDS", 0.2)
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

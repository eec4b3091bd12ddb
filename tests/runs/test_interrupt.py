"""Ctrl-C and SIGTERM: real signals to real processes, which end with what is known by then written."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from robust_attn import cli
from robust_attn.records.store import load_run
from robust_attn.types import ExitStatus
from tests.faults.command import command
from tests.test_cli import ENVIRONMENT, ROOT

ENDLESS = ("model=toy", "layers=[0,1]", "tokens=64", "samples=8", "attack.steps=100000", "attack.restarts=100")
SECOND_LAYER_HANGS = """
import sys, torch
from robust_attn import cli
from robust_attn.pipeline import checks
honest = checks.attack_records

def attack_records(job, *arguments, **options):
    if job.subject.layer == 0:
        return honest(job, *arguments, **options)
    torch.eye(4000, dtype=torch.float64).matrix_power(2**62 - 1)  # one operation of many minutes

checks.attack_records = attack_records
sys.argv = ["robust_attn", *sys.argv[1:]]
cli.main()
"""


SLOW_IMPORT = """
import time
from pathlib import Path
Path("ready").write_text("here")
try:
    time.sleep(300)
except BaseException:  # as modules written in C do, which know one kind of failure
    raise ImportError("this module is broken")
"""
EITHER = pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])


def started(folder: Path, program: list[str]) -> subprocess.Popen[str]:
    """A process that hears Ctrl-C, also where the tests run in the background, which do not."""
    return subprocess.Popen(
        [sys.executable, *program], cwd=folder, env={**ENVIRONMENT, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )  # fmt: skip


def interrupted(
    process: subprocess.Popen[str], folder: Path, ready: str, *, by: signal.Signals = signal.SIGINT
) -> tuple[int, str, str]:
    """Wait until a file `ready` in `folder` has some bytes, press Ctrl-C or send another signal, wait for the end."""
    deadline = time.monotonic() + 120
    while not any(path.stat().st_size for path in folder.glob(ready)) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(by)
    try:
        shown, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, shown, errors


@pytest.mark.slow
@EITHER
@pytest.mark.parametrize("tracker", ["none", "wandb"])
def test_an_interrupted_run_leaves_what_is_known_although_torch_is_busy(tracker, by, tmp_path):
    """The second layer is one operation of torch that takes far longer than the test waits for the process to end."""
    folder = tmp_path / "here"
    arguments = ["model=toy", "tokens=8", "samples=2", f"tracker={tracker}", f"hydra.run.dir={folder}"]
    process = started(tmp_path, ["-c", SECOND_LAYER_HANGS, *arguments])
    status, shown, errors = interrupted(process, folder, "records.jsonl", by=by)
    assert (status, errors.splitlines()[-1]) == (1, "robust_attn: interrupted")
    run = load_run(folder)
    assert (run.status, run.damaged_lines) == ("interrupted", 0)
    assert [(record.layer, record.sample) for record in run.records] == [(0, 0), (0, 1)]
    assert run.summary["records"] == 2
    assert "interrupted" in (folder / "report.html").read_text()
    assert "2 records in" in shown
    if tracker == "wandb" and "wandb tracking stopped" not in errors:  # a busy machine may take longer than is waited
        (file,) = folder.glob("wandb/offline-run-*/*.wandb")
        command = [sys.executable, "-m", "wandb", "leet", "inspect", "--summary", "--json", str(file)]
        told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)
        assert (told["summary"]["status"], told["exit_code"]) == ("interrupted", 1)


@pytest.mark.slow
@EITHER
def test_an_interrupt_before_the_first_record_is_written_down_too(by, tmp_path):
    folder = tmp_path / "here"
    process = started(tmp_path, ["-m", "robust_attn", *ENDLESS, "tracker=none", f"hydra.run.dir={folder}"])
    status, _, errors = interrupted(process, folder, "environment.json", by=by)
    assert (status, errors) == (1, "robust_attn: interrupted\n")
    assert json.loads((folder / "summary.json").read_text())["status"] == "interrupted"


@pytest.mark.slow
@EITHER
def test_an_interrupt_ends_the_whole_sweep_and_says_how_to_go_on(by, tmp_path):
    sweep = tmp_path / "sweep"
    process = started(
        tmp_path, ["-m", "robust_attn", "-m", *ENDLESS, "seed=0,1,2", "tracker=none", f"hydra.sweep.dir={sweep}"]
    )
    status, _, errors = interrupted(process, sweep, "*/environment.json", by=by)
    assert status == 1
    assert errors == f"robust_attn: interrupted; sweep.resume={sweep} runs what is missing\n"
    (job,) = sweep.glob("move-toy-*")
    assert json.loads((job / "summary.json").read_text())["status"] == "interrupted"
    assert not os.path.exists(sweep / ".outcomes")  # noqa: PTH110


@pytest.mark.parametrize("module", ["hydra", "torch"])
def test_an_interrupt_while_modules_are_imported_is_one_line_and_the_same_status(module, tmp_path):
    """Hydra is imported by the command line, torch by the job; each is replaced by one that takes minutes."""
    (tmp_path / module).mkdir()
    (tmp_path / module / "__init__.py").write_text(SLOW_IMPORT)
    process = started(tmp_path, ["-m", "robust_attn", "model=toy", "tracker=none", "hydra.run.dir=here"])
    status, _, errors = interrupted(process, tmp_path, "ready")
    assert (status, errors) == (1, "robust_attn: interrupted\n")


def test_ctrl_c_that_comes_out_as_another_error_is_an_interrupt_all_the_same(tmp_path, monkeypatch, capsys):
    """What OmegaConf does: it tidies up after an exception that it did not expect, and fails at that."""

    def tidied(_):
        try:
            raise KeyboardInterrupt
        finally:
            raise AttributeError("'NoneType' object has no attribute '_invalidate_flags_cache'")

    monkeypatch.setattr(cli, "request_of", tidied)
    status, sentences = command(monkeypatch, capsys, tmp_path)
    assert (status, sentences) == (ExitStatus.FAILED, ["robust_attn: interrupted"])

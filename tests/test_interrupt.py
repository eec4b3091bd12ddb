"""Ctrl-C: a real SIGINT to real processes, which end with what is known by then written."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from robust_attn.report.load import load_run
from tests.test_cli import ENVIRONMENT, ROOT

ENDLESS = ("model=toy", "layers=[0,1]", "tokens=64", "samples=8", "attack.steps=100000", "attack.restarts=100")
SECOND_LAYER_HANGS = """
import sys, torch
from robust_attn import cli, tasks
honest = tasks.attack_records

def attack_records(job, *arguments, **options):
    if job.subject.layer == 0:
        return honest(job, *arguments, **options)
    torch.eye(4000, dtype=torch.float64).matrix_power(2**62 - 1)  # one operation of many minutes

tasks.attack_records = attack_records
sys.argv = ["robust_attn", *sys.argv[1:]]
cli.main()
"""


def started(folder: Path, program: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *program], cwd=folder, env={**ENVIRONMENT, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def interrupted(process: subprocess.Popen[str], ready: Path, *, size: int = 1) -> tuple[int, str, str]:
    """Wait until `ready` has some bytes, press Ctrl-C, and wait for the end."""
    deadline = time.monotonic() + 120
    while not (ready.exists() and ready.stat().st_size >= size) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    try:
        shown, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, shown, errors


@pytest.mark.slow
@pytest.mark.parametrize("tracker", ["none", "wandb"])
def test_an_interrupted_run_leaves_what_is_known_although_torch_is_busy(tracker, tmp_path):
    """The second layer is one operation of torch that takes far longer than the test waits for the process to end."""
    folder = tmp_path / "here"
    arguments = ["model=toy", "tokens=8", "samples=2", f"tracker={tracker}", f"hydra.run.dir={folder}"]
    process = started(tmp_path, ["-c", SECOND_LAYER_HANGS, *arguments])
    status, shown, errors = interrupted(process, folder / "records.jsonl")
    assert (status, errors.splitlines()[-1]) == (1, "robust_attn: interrupted")
    run = load_run(folder)
    assert (run.status, run.damaged_lines) == ("interrupted", 0)
    assert [(record["layer"], record["sample"]) for record in run.records] == [(0, 0), (0, 1)]
    assert run.summary["records"] == 2
    assert "interrupted" in (folder / "report.html").read_text()
    assert "2 records in" in shown
    if tracker == "wandb" and "wandb tracking stopped" not in errors:  # a busy machine may take longer than is waited
        (file,) = folder.glob("wandb/offline-run-*/*.wandb")
        command = [sys.executable, "-m", "wandb", "leet", "inspect", "--summary", "--json", str(file)]
        told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)
        assert (told["summary"]["status"], told["exit_code"]) == ("interrupted", 1)


@pytest.mark.slow
def test_an_interrupt_before_the_first_record_is_written_down_too(tmp_path):
    folder = tmp_path / "here"
    process = started(tmp_path, ["-m", "robust_attn", *ENDLESS, "tracker=none", f"hydra.run.dir={folder}"])
    status, _, errors = interrupted(process, folder / "environment.json")
    assert (status, errors) == (1, "robust_attn: interrupted\n")
    assert json.loads((folder / "summary.json").read_text())["status"] == "interrupted"


@pytest.mark.slow
def test_an_interrupt_ends_the_whole_sweep_and_says_how_to_go_on(tmp_path):
    sweep = tmp_path / "sweep"
    process = started(
        tmp_path, ["-m", "robust_attn", "-m", *ENDLESS, "seed=0,1,2", "tracker=none", f"hydra.sweep.dir={sweep}"]
    )
    status, _, errors = interrupted(process, sweep / "0-move-toy" / "environment.json")
    assert status == 1
    assert errors == f"robust_attn: interrupted; sweep.resume={sweep} goes on with what is missing\n"
    assert [path.name for path in sweep.glob("*-toy")] == ["0-move-toy"]
    assert not os.path.exists(sweep / ".outcomes")  # noqa: PTH110

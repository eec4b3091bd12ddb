"""How the jobs of a sweep ended, told through its folder: with most launchers a job is another process."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

from robust_attn.types import ExitStatus, Outcome

OUTCOMES = ".outcomes"


def leave_outcome(sweep: Path, token: str, number: int, outcome: Outcome) -> None:
    """Write the outcome of job `number` of the sweep that was started as `token`."""
    folder = sweep / OUTCOMES / token
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{number}.partial"
    partial.write_text(json.dumps({"status": int(outcome.status), "message": outcome.message}), encoding="utf-8")
    partial.replace(folder / f"{number}.json")


def collect_outcomes(sweep: Path, token: str) -> list[Outcome]:
    """Every outcome left under `token`, in the order of the jobs; they are removed, being of no further use."""
    folder = sweep / OUTCOMES / token
    files = sorted(folder.glob("*.json"), key=lambda path: int(path.stem))
    found = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):  # another sweep into the same folder may still have its own there
        folder.parent.rmdir()
    return [Outcome(ExitStatus(entry["status"]), entry["message"]) for entry in found]

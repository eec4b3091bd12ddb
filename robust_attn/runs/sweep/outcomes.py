"""How the jobs of a sweep ended, told through its folder: with most launchers a job is another process."""

from __future__ import annotations

import contextlib
import json
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from robust_attn.runs.atomic import write_text
from robust_attn.runs.sweep.job import is_finished, outcome_of
from robust_attn.types import ExitStatus, Outcome

OUTCOMES = ".outcomes"


@dataclass(frozen=True)
class JobOutcome:
    """How job `number` ended; `settled` is False where it was left to another process, which may end it yet."""

    number: int
    folder: Path
    overrides: tuple[str, ...]
    outcome: Outcome
    settled: bool = True


def leave_outcome(sweep: Path, token: str, job: JobOutcome) -> None:
    """Write the outcome of a job of the sweep that was started as `token`."""
    folder = sweep / OUTCOMES / token
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / f"{job.number}.json", json.dumps(asdict(job), default=str))


def collect_outcomes(sweep: Path, token: str) -> list[JobOutcome]:
    """Every outcome left under `token`, in the order of the jobs; they are removed, being of no further use.

    A job that was left to another process, of this sweep if the same settings were given twice, counts as it ended.
    """
    folder = sweep / OUTCOMES / token
    files = sorted(folder.glob("*.json"), key=lambda path: int(path.stem))
    found = [_read(path) for path in files]
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):  # another sweep into the same folder may still have its own there
        folder.parent.rmdir()
    return [job if job.settled or not is_finished(job.folder) else _ended(job) for job in found]


def _read(path: Path) -> JobOutcome:
    values = json.loads(path.read_text(encoding="utf-8"))
    outcome = Outcome(ExitStatus(values["outcome"]["status"]), values["outcome"]["message"])
    place, overrides = Path(values["folder"]), tuple(values["overrides"])
    return JobOutcome(values["number"], place, overrides, outcome, settled=values["settled"])


def _ended(job: JobOutcome) -> JobOutcome:
    return replace(job, outcome=outcome_of(job.folder), settled=True)

"""One job of a sweep, done once. Its folder is named by its settings, so that whoever does the job finds what is there.

Every job decides for itself, in its own process, so it works with every launcher: for a sweep that goes on after an
interruption, for a job that a launcher starts again because it lost the process (Ray does), for settings given twice.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from robust_attn.records.store import RECORDS, load_run
from robust_attn.runs.folder import new_folder
from robust_attn.types import ExitStatus, Outcome, RunState

SETTINGS = ".hydra"
LOCK = ".lock"
REPORT = "report.html"


@dataclass(frozen=True)
class Job:
    """A job in its folder below that of the sweep; `same` says that the settings kept in the folder are its own."""

    folder: Path
    sweep: Path
    same: bool

    @property
    def done(self) -> bool:
        """Whether the folder holds this very job, finished."""
        return self.same and is_finished(self.folder)


def settings_folder(folder: str) -> str | None:
    """Where in `folder` Hydra writes the settings of a run; nowhere if it holds one: nothing written is rewritten."""
    return None if (Path(folder) / RECORDS).exists() else SETTINGS


def done_once(job: Job, work: Callable[[], Outcome]) -> tuple[Outcome, bool]:
    """How the job ended, now or before, and True; or why not, and False where another process is at it."""
    with under_way(job.folder) as free:
        if not free:
            return Outcome(
                ExitStatus.FAILED, f"left alone, because it is still under way elsewhere: {job.folder}"
            ), False
        if job.done:
            print(f"finished before, not run again: {job.folder.name}", flush=True)
            return outcome_of(job.folder), True
        if job.same and (job.folder / RECORDS).exists():
            print(f"unfinished, moved to {set_aside(job.folder, job.sweep)} and run again", flush=True)
        return work(), True


def is_finished(folder: Path) -> bool:
    """The summary says complete, its records are all there and readable, and so is the report made from them.

    Without the report the process was killed after the summary, or the report failed: such a job did not end well.
    """
    run = load_run(folder)
    counted = (run.summary or {}).get("records")
    whole = run.status == RunState.COMPLETE and counted == len(run.records) and not run.damaged_lines
    return whole and (not run.records or (folder / REPORT).is_file())


def outcome_of(folder: Path) -> Outcome:
    """How a finished run ended, as its summary says."""
    summary = load_run(folder).summary or {}
    return Outcome(ExitStatus(summary["exit_status"]), summary["message"])


def set_aside(folder: Path, sweep: Path) -> Path:
    """Move what an unfinished run left into `<sweep>.unfinished` beside the sweep; nothing is deleted or overwritten.

    The folder itself stays, with the settings and the lock that this process holds.
    """
    place = new_folder(sweep.with_name(f"{sweep.name}.unfinished") / folder.relative_to(sweep))
    for path in list(folder.iterdir()):
        if path.name == SETTINGS:
            shutil.copytree(path, place / SETTINGS)
        elif path.name != LOCK:
            path.rename(place / path.name)
    return place


@contextlib.contextmanager
def under_way(folder: Path) -> Iterator[bool]:
    """Hold a lock that the operating system takes away when the process ends, however; False if another holds it."""
    lock, free = FileLock(folder / LOCK), True
    try:
        lock.acquire(timeout=0)
    except Timeout:
        free = False
    except (OSError, NotImplementedError):  # a file system without locks costs no result
        pass
    try:
        yield free
    finally:
        lock.release()


def sweep_name(folder: Path) -> str:
    """What runs of the sweep in `folder` have in common, with no path of the machine in it: day and time if it can."""
    here = Path.cwd()
    parts = folder.absolute().relative_to(here).parts if folder.absolute().is_relative_to(here) else (folder.name,)
    return "/".join(parts[1:] if len(parts) > 1 and parts[0] == "runs" else parts)


def threads_per_job(launcher: Mapping[str, Any]) -> int | None:
    """The cores a submitit job asked for, else one. None where the launcher sees to it: joblib divides the cores
    among its workers, Ray gives a task the cores it asked for, and with the basic launcher jobs follow one another.
    """
    if "submitit" not in str(launcher.get("_target_", "")):
        return None
    return int(launcher.get("cpus_per_task") or 1)

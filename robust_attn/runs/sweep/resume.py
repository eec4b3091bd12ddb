"""Going on with an interrupted sweep. Every job decides for itself, so it works with every launcher.

A launcher may also start a job again by itself, in the same folder, when it lost the process that did it (Ray does).

Two jobs are the same when Hydra wrote the same .hydra/config.yaml for them, byte for byte: all settings, not only
those that were typed. A job is finished when its summary says complete, every record it counts can be read, and its
report, which is written last, is there.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from robust_attn.report.load import load_run
from robust_attn.runs.folder import RECORDS
from robust_attn.types import RunState

CONFIGURATION = Path(".hydra") / "config.yaml"
LOCK = ".lock"
BEGUN = ".begun"
"""Holds the token of the sweep that began the run in a folder."""
REPORT = "report.html"


@dataclass(frozen=True)
class Earlier:
    """The runs of the same job that a sweep folder already holds."""

    finished: tuple[Path, ...] = ()
    under_way: tuple[Path, ...] = ()
    unfinished: tuple[Path, ...] = ()


def earlier_runs(job: Path, sweep: Path) -> Earlier:
    """Runs below `sweep` with the very configuration of the run in `job`, other than that run itself."""
    wanted = _bytes(job / CONFIGURATION)
    configurations = sorted(sweep.rglob(str(CONFIGURATION))) if wanted is not None else []
    same = [path.parent.parent for path in configurations if _bytes(path) == wanted]
    return _sorted_out([folder for folder in same if folder.absolute() != job.absolute()])


def lost_run(job: Path, token: str) -> Earlier:
    """The run in `job` itself if the sweep `token` began it before: then its process was lost on the way."""
    return _sorted_out([job] if _bytes(job / BEGUN) == token.encode() else [])


def begin(job: Path, token: str) -> None:
    """Note whose run this folder will hold; one that already holds a run stays whose it was."""
    if not (job / RECORDS).exists():
        (job / BEGUN).write_text(token, encoding="ascii")


def _sorted_out(folders: Sequence[Path]) -> Earlier:
    finished = tuple(folder for folder in folders if is_finished(folder))
    busy = tuple(folder for folder in folders if folder not in finished and _is_locked(folder))
    return Earlier(finished, busy, tuple(folder for folder in folders if folder not in finished + busy))


def is_finished(folder: Path) -> bool:
    """The summary says complete, its records are all there and readable, and so is the report made from them.

    Without the report the process was killed after the summary, or the report failed: such a job did not end well.
    """
    run = load_run(folder)
    counted = summary_of(folder).get("records")
    whole = run.status == RunState.COMPLETE and counted == len(run.records) and not run.damaged_lines
    return whole and (not run.records or (folder / REPORT).is_file())


def summary_of(folder: Path) -> dict[str, Any]:
    """The summary of a run, empty where there is none that can be read."""
    return load_run(folder).summary or {}


def set_aside(folder: Path, sweep: Path) -> Path:
    """Move an unfinished run out of the sweep, whole, into `<sweep>.unfinished` beside it; nothing is deleted."""
    place = sweep.with_name(f"{sweep.name}.unfinished") / folder.relative_to(sweep)
    number = 1
    while place.exists():
        number += 1
        place = place.with_name(f"{folder.name}-{number}")
    place.parent.mkdir(parents=True, exist_ok=True)
    return folder.rename(place)


def vacate(job: Path, sweep: Path) -> Path:
    """Set the unfinished run in a job's own folder aside, and leave the folder as Hydra made it."""
    place = set_aside(job, sweep)
    shutil.copytree(place / CONFIGURATION.parent, job / CONFIGURATION.parent)
    return place


def withdraw(job: Path) -> None:
    """Remove the folder that Hydra made for a job that need not run; a folder with a run in it is left alone."""
    if not (job / RECORDS).exists():
        shutil.rmtree(job)


@contextlib.contextmanager
def marked_under_way(folder: Path) -> Iterator[None]:
    """Hold a lock that the operating system takes away when the process ends, however it ends."""
    lock = FileLock(folder / LOCK)
    with contextlib.suppress(OSError, NotImplementedError):  # a file system without locks costs no result
        lock.acquire(timeout=0)
    try:
        yield
    finally:
        lock.release()


def _is_locked(folder: Path) -> bool:
    if not (folder / LOCK).exists():
        return False
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None

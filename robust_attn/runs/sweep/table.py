"""The end of a sweep on the screen: one row for each of its jobs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from robust_attn.records.store import load_run
from robust_attn.runs.sweep.outcomes import JobOutcome
from robust_attn.types import ExitStatus

WORDS = {
    ExitStatus.OK: "done",
    ExitStatus.FAILED: "failed",
    ExitStatus.WRONG_CONFIGURATION: "wrong setting",
    ExitStatus.VIOLATED: "violated",
    ExitStatus.FAIL_IF: "fail_if",
}


def jobs_table(jobs: Sequence[tuple[JobOutcome, str]]) -> Table:
    """Each job with its settings in words, what its records say, how it ended, and where it is."""
    table = Table(
        title="Jobs of the sweep", title_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0)
    )
    table.add_column("Job", justify="right")
    for column in ("Settings", "Verdicts", "Status", "Folder"):
        table.add_column(column, overflow="fold")
    for job, words in jobs:
        status = WORDS[job.outcome.status] if job.settled else "under way elsewhere"
        table.add_row(str(job.number + 1), escape(words), _verdicts(job), status, escape(job.folder.name))
    return table


def _verdicts(job: JobOutcome) -> str:
    summary = load_run(job.folder).summary if job.folder.is_dir() else None
    counts = (summary or {}).get("verdicts") or {}
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items()) or "-"

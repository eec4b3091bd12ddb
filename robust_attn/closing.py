"""The end of a run, however it came: the summary first, then tables, figures and report from what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from robust_attn.attacks.hygiene import hygiene_warnings
from robust_attn.config import Settings
from robust_attn.experiments.figures import write_figures
from robust_attn.experiments.outcome import ExperimentOutcome
from robust_attn.report import write_report, write_report_without_figures
from robust_attn.runs.environment import peak_memory_gb
from robust_attn.runs.folder import SUMMARY, RunFolder
from robust_attn.runs.home import without_home
from robust_attn.soundness.findings import closest_table
from robust_attn.tasks import samples_of
from robust_attn.terminal import certificate_table, closing_table, lipschitz_table, panel_table
from robust_attn.through.tables import through_tables
from robust_attn.types import Outcome, RunState
from robust_attn.views.panel import Panel


def summary_of(
    settings: Settings,
    records: Sequence[dict[str, Any]],
    outcome: Outcome,
    state: RunState,
    *,
    found: ExperimentOutcome,
    seconds: float,
) -> dict[str, Any]:
    """What summary.json says."""
    attacked = settings.task["name"] == "attack"
    verdicts = [record["verdict"] for record in records if "verdict" in record]
    return {
        "schema": 1,
        "task": settings.task["name"],
        "status": str(state),
        "exit_status": int(outcome.status),
        "message": without_home(outcome.message),
        "model": records[0]["model"] if records else settings.model["name"],
        "weights": records[0]["weights"] if records else None,
        "attack": settings.attack["name"] if attacked else None,
        "budget": settings.budget,
        "tokens": settings.tokens,
        "samples": samples_of(settings),
        "records": len(records),
        "verdicts": {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))},
        "exponents": found.exponents,
        "radius_exponents": found.radius_exponents,
        "findings": found.findings,
        "warnings": hygiene_warnings(records) if attacked else [],
        "seconds": round(seconds, 3),
        "peak_memory_gb": round(peak_memory_gb(), 3),
    }


def close(
    folder: RunFolder,
    summary: dict[str, Any],
    records: Sequence[dict[str, Any]],
    found: ExperimentOutcome,
    console: Console,
) -> str | None:
    """Write and show everything; a report that cannot be made costs no result, and comes back as a sentence.

    An interrupted run gets its tables and a report without figures, because drawing takes longer than a person waits.
    """
    folder.write(SUMMARY, summary)
    interrupted = summary["status"] == RunState.INTERRUPTED
    trouble = None
    if records:
        for table in _tables(records, found):
            console.print(table)
        write = write_report_without_figures if interrupted else partial(_illustrated_report, found.panels)
        trouble = _reported(folder.path, write, console)
    for warning in summary["warnings"]:
        console.print(f"WARNING: {warning}", style="bold yellow", markup=False, highlight=False)
    console.print(
        f"{summary['records']} records in {summary['seconds']:.1f} s, peak memory {summary['peak_memory_gb']:.2f} GB",
        markup=False,
        highlight=False,
    )
    return trouble


def _illustrated_report(panels: Sequence[Panel], folder: Path) -> Path:
    write_figures(panels, folder / "figures")
    return write_report(folder)


def _reported(folder: Path, write: Callable[[Path], Path], console: Console) -> str | None:
    """Write a report and say where it is; the sentence that says what went wrong, if something did."""
    try:
        report = write(folder)
    except Exception as error:
        return f"the records are complete, but the report could not be written: {type(error).__name__}: {error}"
    console.print(f"report: {report}", markup=False, highlight=False, soft_wrap=True)
    return None


def _tables(records: Sequence[dict[str, Any]], found: ExperimentOutcome) -> list[Table]:
    if found.exponents is not None:
        tables = [lipschitz_table(found.exponents, "tokens")]
        return tables + ([lipschitz_table(found.radius_exponents, "scaled_to")] if found.radius_exponents else [])
    if found.panels:
        return [panel_table(panel) for panel in found.panels]
    if records[0].get("task") == "soundness" and found.findings is not None:
        return [closest_table(found.findings)]
    if through := through_tables(records):
        return through
    return [certificate_table(records) if "norms" in records[0] else closing_table(records)]

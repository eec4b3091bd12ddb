"""One run: every record is written as soon as it is known, and whatever happens the end is written too."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from robust_attn.config.run import RunSettings, plain_choice
from robust_attn.records.entry import Json
from robust_attn.records.gate import gate_of
from robust_attn.records.home import without_home
from robust_attn.records.kinds import Record
from robust_attn.records.store import SUMMARY, load_run
from robust_attn.records.summary import Summary
from robust_attn.records.verdicts import judged, verdict_counts
from robust_attn.report.single import run_view, write_report, write_report_without_figures
from robust_attn.report.style import get_ready
from robust_attn.report.terminal import print_view, record_line
from robust_attn.runs.background import in_background, start_background
from robust_attn.runs.desk import RunDesk
from robust_attn.runs.environment import peak_memory_gb
from robust_attn.runs.folder import RunFolder
from robust_attn.runs.tracking import Begun, Tracker, make_tracker
from robust_attn.types import ExitStatus, Outcome, RunState, UserError, counted
from robust_attn.work import Work

log = logging.getLogger(__name__)
_CAME_TO_ITS_END = (ExitStatus.OK, ExitStatus.FAIL_IF)
"""Whatever goes wrong after that outranks them."""


def execute(
    settings: RunSettings, config: dict[str, Any], path: Path, console: Console, *, sweep: str | None = None
) -> Outcome:
    """Do the task in a folder of its own. Whatever happens, what was recorded stays and the summary says the end.

    An interrupt and errors other than the user's are raised again after that. `sweep` names the sweep of the run.
    """
    started = time.monotonic()
    folder = RunFolder.claim(path)
    tracker = make_tracker(settings.tracker)
    records: list[Record] = []
    outcome, state = Outcome(ExitStatus.FAILED, "stopped before it ended"), RunState.FAILED
    try:
        tracker.start(Begun(path, without_home(config), sweep, settings.task.name, _tags(settings)))
        _record_all(settings, folder, records, tracker=tracker, console=console)
        outcome, state = judged(records), RunState.COMPLETE
    except UserError as error:
        outcome = Outcome(ExitStatus.WRONG_CONFIGURATION, str(error))
    except KeyboardInterrupt:
        outcome = Outcome(ExitStatus.FAILED, "interrupted; what was known by then is recorded")
        state = RunState.INTERRUPTED
        raise
    except Exception as error:
        outcome = Outcome(ExitStatus.FAILED, f"{type(error).__name__}: {error}")
        raise
    finally:
        summary = _summary(settings, records, outcome, state, time.monotonic() - started)
        try:
            trouble = _closed(folder, summary, console, interrupted=state is RunState.INTERRUPTED)
        finally:
            tracker.finish(summary, path)
    if summary.exit_status in _CAME_TO_ITS_END and trouble is not None:
        return Outcome(ExitStatus.FAILED, trouble)
    return Outcome(ExitStatus(summary.exit_status), outcome.message if outcome.message else summary.message)


def _record_all(
    settings: RunSettings, folder: RunFolder, records: list[Record], *, tracker: Tracker, console: Console
) -> None:
    """Write every record of the task, then keep it in `records` and tell whoever follows the run.

    With the first one it is clear that there will be a report: what draws it is imported beside the work.
    """
    with RunDesk(folder, console, settings.dtype) as desk:
        for record in in_background(settings.task.records(Work(settings, desk))):
            desk.record(record)
            folder.append(record)
            records.append(record)
            tracker.record(record)
            if len(records) == 1:
                start_background(get_ready)
            log.debug(record_line(record))
    if not records:
        raise UserError("These settings leave nothing to do: no record was made.")


def _closed(folder: RunFolder, summary: Summary, console: Console, *, interrupted: bool) -> str | None:
    """Write the summary first, then show tables and write the report from what was recorded.

    A report that cannot be made costs no result, and comes back as a sentence. An interrupted run gets one without
    figures, because drawing takes longer than a person waits.
    """
    folder.write(SUMMARY, summary.to_json())
    trouble = None
    if summary.records:
        write = write_report_without_figures if interrupted else write_report
        trouble = _reported(folder.path, write, console)
    for warning in summary.warnings:
        console.print(f"WARNING: {warning}", style="bold yellow", markup=False, highlight=False)
    if summary.records or not summary.message:
        records = counted(summary.records, "record")
        words = f"{records} in {summary.seconds:.1f} s, peak memory {summary.peak_memory_gb:.2f} GB"
        console.print(words, markup=False, highlight=False)
    return trouble


def _tags(settings: RunSettings) -> tuple[str, ...]:
    """By what a tracker finds a run again: its task, its model, its budget, and the attack where there is one."""
    attack = (settings.attack.name,) if settings.task.attacks else ()
    return (settings.task.name, settings.model.name, settings.budget.name, *attack)


def _summary(
    settings: RunSettings, records: Sequence[Record], outcome: Outcome, state: RunState, seconds: float
) -> Summary:
    """What summary.json says. Records that cannot be summed up are a failure, and the run is closed all the same."""
    findings, warnings, unfound = _amount(settings, records)
    gate = gate_of(settings.conditions, records)
    if gate is not None and outcome.status is ExitStatus.OK:
        outcome = gate.outcome
    if unfound is not None and outcome.status in _CAME_TO_ITS_END:
        outcome = Outcome(ExitStatus.FAILED, unfound)
    task, counts = settings.task, verdict_counts(record.stated for record in records)
    return Summary(
        task=task.name,
        status=state,
        exit_status=int(outcome.status),
        message=without_home(outcome.message),
        model=records[0].model if records else settings.model.name,
        weights=records[0].weights if records else None,
        attack=settings.attack.name if task.attacks else None,
        budget=plain_choice("budget", settings.budget),
        tokens=settings.tokens,
        samples=task.samples(settings.samples),
        records=len(records),
        verdicts={str(verdict): count for verdict, count in counts.items() if count},
        findings=findings,
        fail_if=gate,
        warnings=tuple(warnings),
        seconds=round(seconds, 3),
        peak_memory_gb=round(peak_memory_gb(), 3),
    )


def _amount(settings: RunSettings, records: Sequence[Record]) -> tuple[Json | None, list[str], str | None]:
    if not records:
        return None, [], None
    try:
        return settings.task.findings(records), settings.task.warnings(records), None
    except Exception as error:
        return None, [], f"the records are complete, but not what they amount to: {error!r}"


def _reported(folder: Path, write: Callable[[Path], Path], console: Console) -> str | None:
    """Show the tables, write the report and say where it is; or the sentence that says what went wrong."""
    try:
        print_view(run_view(load_run(folder)), console)
        report = write(folder)
    except Exception as error:
        return f"the records are complete, but the report could not be written: {type(error).__name__}: {error}"
    console.print(f"report: {report}", markup=False, highlight=False, soft_wrap=True)
    return None

"""One run: every record is written as soon as it is known, and whatever happens the end is written too."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from robust_attn.closing import close, summary_of
from robust_attn.config import Settings
from robust_attn.experiments.outcome import ExperimentOutcome, outcome_of
from robust_attn.record import constant_unknown, worst_verdict
from robust_attn.runs.background import in_background
from robust_attn.runs.folder import RunFolder
from robust_attn.runs.home import without_home
from robust_attn.runs.progress import RunBars
from robust_attn.runs.tracking import Tracker, make_tracker
from robust_attn.tasks import task_records
from robust_attn.terminal import record_line
from robust_attn.types import ExitStatus, Outcome, RunState, UserError, Verdict

log = logging.getLogger(__name__)


def execute(
    settings: Settings, config: dict[str, Any], path: Path, console: Console, *, sweep: str | None = None
) -> Outcome:
    """Do the task in a folder of its own. Whatever happens, what was recorded stays and the summary says the end.

    An interrupt and errors other than the user's are raised again after that. `sweep` names the sweep of the run.
    """
    started = time.monotonic()
    folder = RunFolder.claim(path)
    tracker = make_tracker(settings.tracker["name"], settings.tracker.get("mode", "offline"), _project(settings))
    records: list[dict[str, Any]] = []
    outcome, state = Outcome(ExitStatus.FAILED, "stopped before it ended"), RunState.FAILED
    trouble = None
    try:
        tracker.start(path, without_home(config), path.name, sweep)
        _record_all(settings, folder, records, tracker=tracker, console=console)
        outcome, state = _judged(records), RunState.COMPLETE
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
        found, unfound = _found(settings, records)
        if unfound is not None and outcome.status is ExitStatus.OK:
            outcome = Outcome(ExitStatus.FAILED, unfound)
        seconds = time.monotonic() - started
        summary = summary_of(settings, records, outcome, state, found=found, seconds=seconds)
        try:
            trouble = close(folder, summary, records, found, console)
        finally:
            tracker.finish(summary, path)
    if trouble is not None and outcome.status is ExitStatus.OK:
        return Outcome(ExitStatus.FAILED, trouble)
    return outcome


def _record_all(
    settings: Settings, folder: RunFolder, records: list[dict[str, Any]], *, tracker: Tracker, console: Console
) -> None:
    """Write every record of the task, then keep it in `records` and tell whoever follows the run."""
    with RunBars(console) as bars:
        for record in in_background(task_records(settings, folder, bars)):
            folder.append(record)
            records.append(record)
            tracker.record(record)
            log.debug(record_line(record))
    if not records:
        raise UserError("These settings leave nothing to do: no record was made.")


def _found(settings: Settings, records: list[dict[str, Any]]) -> tuple[ExperimentOutcome, str | None]:
    """What the records amount to, or nothing and a sentence: whatever they hold, the run is closed."""
    try:
        return outcome_of(settings.task, records), None
    except Exception as error:
        return ExperimentOutcome(), f"the records are complete, but not what they amount to: {error!r}"


def _judged(records: list[dict[str, Any]]) -> Outcome:
    match worst_verdict([record for record in records if not record.get("expected")]):
        case Verdict.VIOLATED:
            return Outcome(ExitStatus.VIOLATED, "an observed output change exceeds its certificate")
        case Verdict.UNKNOWN:
            return Outcome(ExitStatus.FAILED, "a value was not finite, or lost in rounding: nothing is known")
        case _ if any(map(constant_unknown, records)):
            return Outcome(ExitStatus.FAILED, "a constant was not finite, so nothing can be said about it")
        case _:
            return Outcome(ExitStatus.OK)


def _project(settings: Settings) -> str:
    return str(settings.tracker.get("project", "robust_attn"))

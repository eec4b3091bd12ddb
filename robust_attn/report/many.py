"""One report over every run below a folder, and the figures of either for scripts and notebooks."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from robust_attn.records.conditions import Condition
from robust_attn.records.store import Run, find_runs
from robust_attn.records.verdicts import judged
from robust_attn.report.asked import view_of
from robust_attn.report.drawing import drawn
from robust_attn.report.html import About, Note
from robust_attn.report.single import GATE_NOTE, write_pages, write_report
from robust_attn.types import ExitStatus, Outcome, UserError
from robust_attn.views.comparison import comparison_view, notes
from robust_attn.views.gate import gate_note, gate_of_run, gate_of_runs, with_gate
from robust_attn.views.view import View
from robust_attn.views.words import counted

if TYPE_CHECKING:
    import matplotlib.figure


def write_sweep_report(folder: Path, conditions: Sequence[Condition] = ()) -> Path:
    """Write report.html, report.md and figures/*.png in `folder` over every run at or below it.

    `conditions` are judged in place of those that the runs were given.
    """
    runs = _runs(folder)
    if _is_run(folder, runs):  # the folder is itself the only run: its own report says more than a table of one
        return write_report(folder, conditions)
    gate = gate_of_runs(_named(folder, runs), conditions)
    failed = gate_note(gate)
    said = (
        *((Note(GATE_NOTE, failed, urgent=True),) if failed else ()),
        *(Note("Note.", note) for note in notes(runs)),
    )
    about = About(f"{counted(len(runs), 'run')} compared", subtitle=folder.resolve().name, notes=said)
    return write_pages(folder, with_gate(_view(folder, runs), gate), about)


def outcomes_below(folder: Path, conditions: Sequence[Condition]) -> list[Outcome]:
    """How the runs at or below `folder` stand by these conditions, and by all that outranks a condition."""
    runs = _runs(folder)
    gate = gate_of_run(runs[0], conditions) if _is_run(folder, runs) else gate_of_runs(_named(folder, runs), conditions)
    unfinished = sum(run.status != "complete" or not run.records for run in runs)
    missing = f"{counted(unfinished, 'run')} failed, did not finish or left no record"
    return [
        *(judged(run.records) for run in runs),
        *([Outcome(ExitStatus.FAILED, missing)] if unfinished else []),
        *([gate.outcome] if gate is not None else []),
    ]


def run_figures(folder: str | Path) -> dict[str, "matplotlib.figure.Figure"]:
    """Every figure of the report of a run, by name, such as `layers`, `ladder`, `convergence` or `heads`.

    Of a folder that holds several runs, those of the report over all of them. What the records have no numbers for is
    left out.
    """
    top = Path(folder)
    runs = _runs(top)
    view = view_of(runs[0]) if _is_run(top, runs) else _view(top, runs)
    return {panel.name: drawn(panel).figure for panel in view.panels if not panel.empty}


def _runs(folder: Path) -> tuple[Run, ...]:
    runs = find_runs(folder)
    if not runs:
        raise UserError(f"no runs below {folder}; expected folders with records.jsonl or summary.json.")
    return runs


def _named(folder: Path, runs: Sequence[Run]) -> dict[str, Run]:
    return {run.folder.relative_to(folder).as_posix(): run for run in runs}


def _is_run(folder: Path, runs: Sequence[Run]) -> bool:
    return [run.folder for run in runs] == [folder]


def _view(folder: Path, runs: Sequence[Run]) -> View:
    return comparison_view(folder, runs, {run.folder: _link(folder, run) for run in runs})


def _link(folder: Path, run: Run) -> str:
    """The run's own report, as an address relative to the common one; nothing when it has none."""
    report = run.folder / "report.html"
    return quote(report.relative_to(folder).as_posix()) if report.is_file() and run.folder != folder else ""

"""The report of one run: report.html, report.md and figures/."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from robust_attn.records.conditions import Condition
from robust_attn.records.store import Run, load_run
from robust_attn.report.asked import view_of
from robust_attn.report.drawing import drawn
from robust_attn.report.html import About, Note, html_text
from robust_attn.report.markdown import markdown_text
from robust_attn.report.pictures import png_file
from robust_attn.runs.atomic import write_text
from robust_attn.views import facts
from robust_attn.views.gate import gate_note, gate_of_run, with_gate
from robust_attn.views.view import Tile, View, present
from robust_attn.views.words import duration

GATE_NOTE = "Fails."
_SETTINGS_SHOWN = 200
_CHARACTERS_SHOWN = 300


def write_report(folder: Path, conditions: Sequence[Condition] = ()) -> Path:
    """Write report.html, report.md and figures/*.png of the run in `folder`; the path of report.html.

    `conditions` are judged in place of those that the run was given.
    """
    run = load_run(folder)
    view = run_view(run, conditions)
    return write_pages(folder, view, about_run(run, view, gate_note(gate_of_run(run, conditions))))


def write_report_without_figures(folder: Path) -> Path:
    """The same without what takes seconds to draw, for a run that was interrupted."""
    run = load_run(folder)
    view = run_view(run)
    about = about_run(run, view, gate_note(gate_of_run(run)))
    return write_pages(folder, view, about, figures=False)


def write_pages(folder: Path, view: View, about: About, *, name: str = "report", figures: bool = True) -> Path:
    """Write a view as figures/*.png of the panels that have something to show, its files, and two pages."""
    drawings = [drawn(panel) for panel in view.panels if not panel.empty] if figures else []
    for drawing in drawings:
        png_file(drawing, folder / "figures")
    for file, text in view.files.items():
        write_text(folder / file, text)
    notes, panels = [note.text for note in about.notes], [drawing.panel for drawing in drawings]
    write_text(folder / f"{name}.md", markdown_text(view, notes, panels, about.command))
    return write_text(folder / f"{name}.html", html_text(view, about, drawings))


def run_view(run: Run, conditions: Sequence[Condition] = ()) -> View:
    """The view of a run, with what its gate says and the time that it took."""
    view = with_gate(view_of(run), gate_of_run(run, conditions))
    view = replace(view, statement=replace(view.statement, tested=facts.tested(run)))
    seconds = (run.summary or {}).get("seconds")
    if not run.records or not isinstance(seconds, int | float):
        return view
    return replace(view, tiles=(*view.tiles, Tile("Time taken", duration(float(seconds)), "for the whole run")))


def about_run(run: Run, view: View, failed: str = "") -> About:
    """What a run says about itself; `failed` is what it was not to be, and is."""
    environment = {k: v for k, v in facts.flattened(run.environment or {}).items() if k != "weights_note"}
    attacked = "attack" in {record.kind for record in run.records}
    return About(
        title=f"{facts.text_of(facts.fact(run, 'model'))}: {view.question}",
        subtitle=facts.subtitle(run, attacked=attacked),
        notes=_notes(run, failed),
        command=facts.command_of(run),
        commit=str((run.environment or {}).get("commit") or ""),
        folder=run.folder.resolve().name,
        settings=_shown(facts.flattened(run.config)),
        environment=_shown(environment),
    )


def _notes(run: Run, failed: str) -> tuple[Note, ...]:
    state, weights = facts.state_note(run), facts.weights_note(run)
    label = "Random weights." if facts.has_random_weights(run) else "Weights."
    return present(
        Note("Incomplete.", state, urgent=True) if state else None,
        Note(GATE_NOTE, failed, urgent=True) if failed else None,
        Note(label, weights) if weights else None,
    )


def _shown(values: dict[str, str]) -> dict[str, str]:
    few = list(values.items())[:_SETTINGS_SHOWN]
    return {key[:_CHARACTERS_SHOWN]: value[:_CHARACTERS_SHOWN] for key, value in few}

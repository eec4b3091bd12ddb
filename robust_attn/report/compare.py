"""Two runs side by side: compare.html, compare.md, compare.csv, and what the terminal shows."""

from __future__ import annotations

from pathlib import Path

from robust_attn.records.store import RECORDS, SUMMARY, Run, find_runs, load_run
from robust_attn.report.drawing import drawn
from robust_attn.report.html import About, Note, html_text
from robust_attn.report.markdown import markdown_text
from robust_attn.report.pictures import png_file
from robust_attn.report.terminal import console, print_view
from robust_attn.runs.atomic import write_text
from robust_attn.types import UserError
from robust_attn.views.pairs import TABLE, comparison_of, pairs_csv, pairs_notes, pairs_view

PAGE = "compare.html"


def write_comparison(first: Path, second: Path, to: Path | None = None) -> Path:
    """Compare the run in `second` with that in `first`; the page is written into `to`, else beside the second run."""
    compared = comparison_of(_run(first), _run(second))
    view, notes, folder = pairs_view(compared), pairs_notes(compared), to or second
    folder.mkdir(parents=True, exist_ok=True)
    drawings = [drawn(panel) for panel in view.panels if not panel.empty]
    for drawing in drawings:
        png_file(drawing, folder / "figures")
    write_text(folder / TABLE, pairs_csv(compared))
    write_text(folder / "compare.md", markdown_text(view, notes, [drawing.panel for drawing in drawings]))
    about = About(
        title=f"{compared.names[1]} beside {compared.names[0]}",
        subtitle="B beside A, pair by pair",
        notes=tuple(Note("Note.", note, urgent=True) for note in notes),
    )
    page = write_text(folder / PAGE, html_text(view, about, drawings))
    screen = console()
    for note in notes:
        screen.print(note, style="bold yellow", markup=False, highlight=False)
    print_view(view, screen)
    return page


def _run(folder: Path) -> Run:
    """The one run of a folder; a sentence where it holds none, or several."""
    if any((folder / name).is_file() for name in (RECORDS, SUMMARY)):
        return load_run(folder)
    below = find_runs(folder)
    if len(below) != 1:
        raise UserError(f"{folder} is not the folder of a run: expected {RECORDS} in it; {len(below)} runs are below.")
    return below[0]

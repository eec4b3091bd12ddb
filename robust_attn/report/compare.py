"""Two runs side by side: compare.html, compare.md, compare.csv, and what the terminal shows."""

from __future__ import annotations

from pathlib import Path

from robust_attn.records.store import RECORDS, SUMMARY, Run, find_runs, load_run
from robust_attn.report.html import About, Note
from robust_attn.report.single import write_pages
from robust_attn.report.terminal import console, print_view
from robust_attn.types import UserError
from robust_attn.views.pairs import comparison_of, pairs_notes, pairs_view


def write_comparison(first: Path, second: Path, to: Path | None = None) -> Path:
    """Compare the run in `second` with that in `first`; the page is written into `to`, else beside the second run."""
    compared = comparison_of(_run(first), _run(second))
    view, folder = pairs_view(compared), to or second
    about = About(
        title=f"{compared.names[1]} beside {compared.names[0]}",
        subtitle="B beside A, pair by pair",
        notes=tuple(Note("Note.", note, urgent=True) for note in pairs_notes(compared)),
    )
    folder.mkdir(parents=True, exist_ok=True)
    page, screen = write_pages(folder, view, about, name="compare"), console()
    for note in about.notes:
        screen.print(note.text, style="bold yellow", markup=False, highlight=False)
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

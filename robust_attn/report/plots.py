"""The figures of a report for scripts and notebooks, as matplotlib figures."""

from pathlib import Path
from typing import TYPE_CHECKING

from robust_attn.report.findings import findings_of
from robust_attn.report.html import all_charts
from robust_attn.report.load import find_runs, load_run
from robust_attn.report.sweep import all_sweep_charts, sweep_of
from robust_attn.types import UserError

if TYPE_CHECKING:
    import matplotlib.figure


def run_figures(folder: str | Path) -> dict[str, "matplotlib.figure.Figure"]:
    """Every figure of the report of a run, by name: `layers`, `ladder`, `convergence`, `radii`, `heads`, `lengths`.

    Of a folder that holds several runs, those of the sweep report. What the records have no numbers for is left out.
    """
    top = Path(folder)
    runs = find_runs(top)
    if not runs:
        raise UserError(f"no runs below {top}; expected folders with records.jsonl or summary.json.")
    one = [run.folder for run in runs] == [top]
    charts = all_charts(findings_of(load_run(top))) if one else all_sweep_charts(sweep_of(top, runs))
    return {chart.name: chart.figure for chart in charts}

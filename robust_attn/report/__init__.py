"""Reports that a person can read, from records that a script can check."""

from robust_attn.records.store import Run, find_runs, load_run
from robust_attn.report.many import run_figures, write_sweep_report
from robust_attn.report.single import write_report, write_report_without_figures

__all__ = [
    "Run",
    "find_runs",
    "load_run",
    "run_figures",
    "write_report",
    "write_report_without_figures",
    "write_sweep_report",
]

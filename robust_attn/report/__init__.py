"""Reports that a person can read, from records that a script can check."""

from robust_attn.report.html import write_report, write_report_without_figures
from robust_attn.report.load import Run, find_runs, load_run
from robust_attn.report.sweep import write_sweep_report

__all__ = ["Run", "find_runs", "load_run", "write_report", "write_report_without_figures", "write_sweep_report"]

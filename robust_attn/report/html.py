"""report.html of one run: the verdict first, then what it rests on."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from robust_attn.report import facts
from robust_attn.report.atomic import write_text
from robust_attn.report.chart import Chart, png_file, svg_text
from robust_attn.report.figures import charts_of
from robust_attn.report.findings import Findings, findings_of, tiles
from robust_attn.report.ladder import Rung
from robust_attn.report.load import Run, load_run
from robust_attn.report.markdown import markdown_text
from robust_attn.report.page import rendered, trusted
from robust_attn.report.rows import Row, shown_first

ROWS_SHOWN = 500
_SETTINGS_SHOWN = 200
_CHARACTERS_SHOWN = 300


def write_report(folder: Path) -> Path:
    """Write report.html, report.md and figures/*.png of the run in `folder`; the path of report.html."""
    run = load_run(folder)
    findings = findings_of(run)
    charts = charts_of([row for row in findings.rows if row.head is None], findings.example)
    for chart in charts:
        png_file(chart, folder / "figures")
    write_text(folder / "report.md", markdown_text(findings, charts))
    return write_text(folder / "report.html", html_text(findings, charts))


def html_text(findings: Findings, charts: Sequence[Chart]) -> str:
    """The page."""
    run = findings.run
    shown = shown_first(findings.rows, ROWS_SHOWN)
    settings = {key: value[:_CHARACTERS_SHOWN] for key, value in facts.flattened(run.config).items()}
    values: dict[str, Any] = {
        "findings": findings,
        "title": _title(run),
        "subtitle": _subtitle(run),
        "state": facts.state_note(run),
        "weights_note": facts.weights_note(run),
        "tiles": tiles(findings),
        "charts": [(chart, trusted(svg_text(chart))) for chart in charts],
        "noun": facts.setting_of(run).noun,
        "attacked": any(row.attacked for row in findings.rows),
        "with_heads": any(row.head is not None for row in findings.rows),
        "ladder": _against_promise(findings.example),
        "rows": shown,
        "hidden": len(findings.rows) - len(shown),
        "texts": facts.sample_texts(run),
        "settings": dict(list(settings.items())[:_SETTINGS_SHOWN]),
        "environment": _environment(run),
        "commit": (run.environment or {}).get("commit") or "",
        "command": facts.command_of(run),
        "folder": run.folder.resolve().name,
    }
    return rendered("report.html.j2", values)


def _against_promise(row: Row | None) -> list[tuple[Rung, float | None]]:
    """Each rung with the logarithm of its ratio to the promise."""
    if row is None:
        return []
    base = math.log10(row.certified) if row.certified is not None and row.certified > 0 else None
    return [(rung, rung.log10 - base if rung.log10 is not None and base is not None else None) for rung in row.ladder]


def _title(run: Run) -> str:
    return f"{facts.text_of(facts.fact(run, 'model'))}: how far can its attention be pushed?"


def _subtitle(run: Run) -> str:
    parts = [facts.text_of(facts.fact(run, key)) for key in ("task", "attack", "weights")]
    labels = ("task", "attack", "weights")
    return " · ".join(f"{label} {part}" for label, part in zip(labels, parts, strict=True) if part != "unknown")


def _environment(run: Run) -> dict[str, str]:
    flat = facts.flattened(run.environment or {})
    return {key: value[:_CHARACTERS_SHOWN] for key, value in flat.items() if key != "weights_note"}

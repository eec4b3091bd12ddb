"""report.html of one run: the verdict first, then what it rests on."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from robust_attn.report import facts, words
from robust_attn.report.chart import Chart, png_file, svg_text
from robust_attn.report.figures import SEARCHES, charts_of
from robust_attn.report.findings import Findings, findings_of, tiles
from robust_attn.report.heatmap import heads_chart
from robust_attn.report.ladder import Rung
from robust_attn.report.load import Run, load_run
from robust_attn.report.markdown import markdown_text
from robust_attn.report.page import rendered, trusted
from robust_attn.report.pictures import pictures_in
from robust_attn.report.radii import against_radius, radius_chart
from robust_attn.report.rows import Row, place_of, shown_first
from robust_attn.report.sensitivity_figures import lengths_chart
from robust_attn.runs.atomic import write_text
from robust_attn.types import Verdict

ROWS_SHOWN = 500
_SETTINGS_SHOWN = 200
_CHARACTERS_SHOWN = 300


def write_report(folder: Path) -> Path:
    """Write report.html, report.md and figures/*.png of the run in `folder`; the path of report.html."""
    run = load_run(folder)
    findings = findings_of(run)
    charts = all_charts(findings)
    for chart in charts:
        png_file(chart, folder / "figures")
    return _written(folder, findings, charts)


def write_report_without_figures(folder: Path) -> Path:
    """The same without what takes seconds to draw, for a run that was interrupted."""
    return _written(folder, findings_of(load_run(folder)), ())


def _written(folder: Path, findings: Findings, charts: Sequence[Chart]) -> Path:
    write_text(folder / "report.md", markdown_text(findings, charts))
    return write_text(folder / "report.html", html_text(findings, charts))


def all_charts(findings: Findings) -> tuple[Chart, ...]:
    """The figures of every kind of records, those of whole layers only."""
    checks = charts_of([row for row in findings.rows if row.head is None], findings.example)
    searches = charts_of(findings.searches, findings.search_example, SEARCHES) if findings.searches else ()
    more = (
        radius_chart(against_radius(findings.run.records)),
        heads_chart(findings.certificates, facts.setting_of(findings.run).radius),
        lengths_chart(findings.growth),
    )
    return (*checks, *searches, *(chart for chart in more if chart is not None))


def html_text(findings: Findings, charts: Sequence[Chart]) -> str:
    """The page."""
    run = findings.run
    values: dict[str, Any] = {
        "findings": findings,
        "title": _title(run),
        "subtitle": _subtitle(findings),
        "state": facts.state_note(run),
        "weights_note": facts.weights_note(run),
        "random_weights": facts.has_random_weights(run),
        "tiles": tiles(findings),
        "run_has_records": bool(run.records),
        "charts": [(chart, trusted(svg_text(chart))) for chart in charts],
        "pictures": pictures_in(run.folder / "figures"),
        "noun": facts.setting_of(run).noun,
        "texts": facts.sample_texts(run),
        "passages": findings.passages,
        "passage_layer": _first_layer(findings),
        **_table_values(findings),
        **_origin_values(run),
    }
    return rendered("report.html.j2", values)


def _table_values(findings: Findings) -> dict[str, Any]:
    """What the tables, the ladders and the list of terms are made of."""
    shown = shown_first(findings.rows, ROWS_SHOWN)
    return {
        "terms": words.terms(
            checks=bool(findings.rows),
            norms=bool(findings.certificates),
            searches=bool(findings.searches),
            constants=bool(findings.constants),
        ),
        "attacked": any(row.attacked for row in findings.rows),
        "with_heads": any(row.head is not None for row in findings.rows),
        "ladder": _against_promise(findings.example),
        "search_ladder": _against_promise(findings.search_example),
        "place": place_of(findings.example) if findings.example else "",
        "search_place": place_of(findings.search_example) if findings.search_example else "",
        "bad": (Verdict.VIOLATED, Verdict.UNKNOWN),
        "certificates": findings.certificates[:ROWS_SHOWN],
        "rows": shown,
        "hidden": len(findings.rows) - len(shown),
        "constants": findings.constants[:ROWS_SHOWN],
    }


def _origin_values(run: Run) -> dict[str, Any]:
    """Where the results come from, and how to have them again."""
    settings = {key: value[:_CHARACTERS_SHOWN] for key, value in facts.flattened(run.config).items()}
    return {
        "settings": dict(list(settings.items())[:_SETTINGS_SHOWN]),
        "environment": _environment(run),
        "commit": (run.environment or {}).get("commit") or "",
        "command": facts.command_of(run),
        "folder": run.folder.resolve().name,
    }


def _against_promise(row: Row | None) -> list[tuple[Rung, float | None]]:
    """Each rung with the logarithm of its ratio to the promise."""
    if row is None:
        return []
    base = math.log10(row.certified) if row.certified is not None and row.certified > 0 else None
    return [(rung, rung.log10 - base if rung.log10 is not None and base is not None else None) for rung in row.ladder]


def _first_layer(findings: Findings) -> int | None:
    """The layer whose tokens are shown first: that of the example, where it has any."""
    layers = findings.passages.by_layer
    wanted = findings.example.layer if findings.example else None
    return wanted if wanted in layers else next(iter(layers), None)


def _title(run: Run) -> str:
    return f"{facts.text_of(facts.fact(run, 'model'))}: how far can its attention be pushed?"


def _subtitle(findings: Findings) -> str:
    """Task, attack and weights; a run that attacked nothing names no attack, whatever its settings hold."""
    keys = ("task", "attack", "weights") if any(row.attacked for row in findings.rows) else ("task", "weights")
    parts = ((key, facts.text_of(facts.fact(findings.run, key))) for key in keys)
    return " · ".join(f"{key} {part}" for key, part in parts if part != "unknown")


def _environment(run: Run) -> dict[str, str]:
    flat = facts.flattened(run.environment or {})
    return {key: value[:_CHARACTERS_SHOWN] for key, value in flat.items() if key != "weights_note"}

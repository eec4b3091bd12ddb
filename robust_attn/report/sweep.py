"""One report over every run below a folder, whatever was swept, finished or not."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from robust_attn.report import facts, words
from robust_attn.report.by_setting import ByValue, by_value
from robust_attn.report.chart import Chart, png_file, svg_text
from robust_attn.report.html import write_report
from robust_attn.report.kinds import kinds_of
from robust_attn.report.load import Run, find_runs
from robust_attn.report.numerals import at_least, number_at, percent
from robust_attn.report.page import rendered, trusted
from robust_attn.report.rows import covering, largest, rows_of, stated_verdicts, worst_verdict
from robust_attn.report.sensitivity import constants_of, search_row
from robust_attn.report.split_gain import Examined, SplitGain, split_chart, split_gains
from robust_attn.report.sweep_figures import sweep_charts
from robust_attn.report.sweep_markdown import sweep_markdown
from robust_attn.report.sweep_run import SweepRun
from robust_attn.report.trends import Trend, trends_of
from robust_attn.runs.atomic import write_text
from robust_attn.types import UserError, Verdict

RUNS_SHOWN = 1000
UNSTATED = "—"
"""A setting that a run does not tell, for instance because it ended before its weights were known."""
_SUMMARY_KEYS = ("task", "model", "weights", "attack", "budget", "tokens", "samples")


@dataclass(frozen=True)
class Sweep:
    """Every run below a folder; `keys` are the settings in which they differ."""

    folder: Path
    keys: tuple[str, ...]
    runs: tuple[SweepRun, ...]
    trends: tuple[Trend, ...]
    splits: tuple[SplitGain, ...]
    values: tuple[ByValue, ...]


def write_sweep_report(folder: Path) -> Path:
    """Write report.html, report.md and figures/*.png in `folder` over every run at or below it."""
    runs = find_runs(folder)
    if not runs:
        raise UserError(f"no runs below {folder}; expected folders with records.jsonl or summary.json.")
    if [run.folder for run in runs] == [folder]:
        return write_report(folder)  # the folder is itself the only run: its own report says more than a table of one
    sweep = sweep_of(folder, runs)
    charts = all_sweep_charts(sweep)
    for chart in charts:
        png_file(chart, folder / "figures")
    noted = notes(runs)
    write_text(folder / "report.md", sweep_markdown(sweep, headline(sweep.runs), charts, noted))
    return write_text(folder / "report.html", _html_text(sweep, charts, noted))


def _html_text(sweep: Sweep, charts: Sequence[Chart], noted: Sequence[str]) -> str:
    values: dict[str, Any] = {
        "sweep": sweep,
        "title": f"{words.counted(len(sweep.runs), 'run')} compared",
        "headline": headline(sweep.runs),
        "subtitle": sweep.folder.resolve().name,
        "charts": [(chart, trusted(svg_text(chart))) for chart in charts],
        "runs": sweep.runs[:RUNS_SHOWN],
        "hidden": max(0, len(sweep.runs) - RUNS_SHOWN),
        "extremes": extremes(sweep.runs),
        "notes": noted,
        "unfinished": [run for run in sweep.runs if run.status != "complete"],
        "measured": any(run.lipschitz is not None for run in sweep.runs),
    }
    return rendered("sweep.html.j2", values)


def all_sweep_charts(sweep: Sweep) -> tuple[Chart, ...]:
    """Along every swept number, run by run, and what splitting gains."""
    splits = split_chart(sweep.splits)
    return (*sweep_charts(sweep.runs, sweep.keys), *((splits,) if splits else ()))


def sweep_of(folder: Path, runs: Sequence[Run]) -> Sweep:
    """The runs as lines with the settings in which they differ."""
    keys = swept_keys(runs)
    lines = tuple(_line(folder, run, keys) for run in runs)
    examined = [Examined(line.settings, run.records) for line, run in zip(lines, runs, strict=True)]
    return Sweep(folder, keys, lines, trends_of(lines, keys), split_gains(examined), by_value(lines, keys))


def swept_keys(runs: Sequence[Run]) -> tuple[str, ...]:
    """Settings that differ between runs: those given on the command line, and those that every summary states."""
    given = [key for run in runs for key in _overrides(run)]
    candidates = dict.fromkeys([*given, *_SUMMARY_KEYS])
    values = {key: {setting(run, key) for run in runs} for key in candidates}
    differing = [key for key in candidates if len(values[key] - (set() if key in given else {UNSTATED})) > 1]
    follows_model = "model" in differing and "model.weights" not in given
    return tuple(key for key in differing if not _implied(key, differing, follows_model))


def _implied(key: str, differing: Sequence[str], follows_model: bool) -> bool:
    """A column that only repeats another: the budget beside its radius, the weights that come with a model."""
    inner = any(other.startswith(f"{key}.") for other in differing)
    return (key == "budget" and inner) or (key == "weights" and follows_model)


def setting(run: Run, key: str) -> str:
    """The value of a setting in a run: as given, as recorded, or from the composed configuration."""
    given = _overrides(run).get(key)
    if given is not None:
        return given
    recorded = facts.fact(run, key)
    if recorded is not None:
        return facts.text_of(recorded)
    return facts.flattened(run.config).get(key, UNSTATED)


def _overrides(run: Run) -> dict[str, str]:
    pairs = (item.partition("=") for item in run.overrides if "=" in item)
    return {key.lstrip("+~"): value for key, _, value in pairs}


def _line(folder: Path, run: Run, keys: Sequence[str]) -> SweepRun:
    kinds = kinds_of(run.records)
    rows = rows_of(kinds.checks)
    judged = (*rows, *(search_row(record) for record in kinds.searches))
    attacked = [row for row in rows if row.attacked]
    verdicts = [*(row.verdict for row in judged), *stated_verdicts(kinds.others)]
    message = str((run.summary or {}).get("message") or "")
    measured = () if rows else constants_of((*kinds.searches, *kinds.constants, *kinds.others))
    return SweepRun(
        label=_label(folder, run),
        settings={key: setting(run, key) for key in keys},
        status=run.status,
        message=message[:300],
        records=len(run.records),
        checks=len(verdicts),
        observed=largest(row.observed for row in attacked),
        gain=largest(row.gain for row in attacked),
        certified=covering(row for row in rows if row.head is None),
        tightness=largest(
            [row.tightness for row in (*attacked, *judged[len(rows) :])]
            + [number_at(record, "tightness") for record in kinds.others]
        ),
        lipschitz=largest(constant.lower for constant in measured),
        counts={verdict: verdicts.count(verdict) for verdict in Verdict},
        verdict=worst_verdict(verdicts),
        link=_link(folder, run),
    )


def _label(folder: Path, run: Run) -> str:
    relative = run.folder.relative_to(folder).as_posix()
    return run.folder.resolve().name if relative == "." else relative


def _link(folder: Path, run: Run) -> str:
    """The run's own report, as an address relative to the sweep's report; nothing when it has none."""
    report = run.folder / "report.html"
    return quote(report.relative_to(folder).as_posix()) if report.is_file() and run.folder != folder else ""


def headline(runs: Sequence[SweepRun]) -> words.Headline:
    """One verdict on the whole comparison, with the runs that did not end well."""
    failed = [run for run in runs if run.status != "complete"]
    violated = sum(run.counts[Verdict.VIOLATED] for run in runs)
    total = sum(run.checks for run in runs)
    unknown = sum(run.counts[Verdict.UNKNOWN] for run in runs)
    unfinished = f" {words.counted(len(failed), 'run')} failed or did not finish." if failed else ""
    if violated:
        return words.Headline("violated", "A promise was broken", f"{violated} of {total} checks violated.{unfinished}")
    if not total and any(run.records for run in runs):
        records = words.counted(sum(run.records for run in runs), "record")
        return words.Headline("measured", "Measurements compared", f"{records}, none with a verdict.{unfinished}")
    if unknown or not total:
        detail = f"{unknown} of {total} checks ended without a finite number, or within rounding.{unfinished}"
        return words.Headline("unknown", "Not every promise could be computed", detail)
    vacuous = sum(run.counts[Verdict.VACUOUS] for run in runs)
    if vacuous:
        detail = f"{vacuous} of {total} checks promise no more than the trivial bound.{unfinished}"
        return words.Headline("vacuous", "No promise was broken, but some say nothing new", detail)
    title = "Every promise held" if not failed else "Every promise held so far"
    tone = "holds" if not failed else "unknown"
    return words.Headline(tone, title, f"{words.counted(total, 'check')} in {len(runs)} runs.{unfinished}")


def extremes(runs: Sequence[SweepRun]) -> tuple[tuple[str, str, SweepRun], ...]:
    """Best and worst: the run with the largest gain, the tightest and the loosest promise, each with its number."""
    gains = [run for run in runs if run.gain is not None]
    shares = [run for run in runs if run.tightness is not None]
    found = []
    if gains:
        strongest = max(gains, key=lambda run: run.gain or 0.0)
        found.append(("Strongest attack", f"gain {at_least(strongest.gain)}", strongest))
    if shares:
        tightest = max(shares, key=lambda run: run.tightness or 0.0)
        loosest = min(shares, key=lambda run: run.tightness or 0.0)
        found.append(("Tightest promise", f"{percent(tightest.tightness)} reached", tightest))
        found.append(("Loosest promise", f"{percent(loosest.tightness)} reached", loosest))
    return tuple(found)


def notes(runs: Sequence[Run]) -> tuple[str, ...]:
    """Loud notes of any run, each once with the model it is about, and what could not be read."""
    damaged = sum(run.damaged_lines for run in runs)
    said = dict.fromkeys(
        f"{facts.text_of(facts.fact(run, 'model'))}: {note}" for run in runs if (note := facts.weights_note(run))
    )
    lines = f"{words.counted(damaged, 'line')} of records could not be read (cut or damaged)."
    return (*said, *((lines,) if damaged else ()))

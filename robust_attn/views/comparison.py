"""Many runs at once, whatever was swept, finished or not, of one kind or of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from robust_attn.records.store import Run
from robust_attn.records.verdicts import verdict_counts
from robust_attn.types import Verdict
from robust_attn.views import facts, words
from robust_attn.views.numerals import UNKNOWN, at_least, at_most, percent
from robust_attn.views.panel import Look, Panel, Role, positive_line
from robust_attn.views.run_line import UNSTATED, RunLine, run_lines, settings_label, task_of
from robust_attn.views.split_gain import split_gains, split_panel, split_table
from robust_attn.views.table import ABSENT, Cell, Field, Fields, Table, cells, counts, filled, perhaps, table_of, texts
from robust_attn.views.trends import along_panels, trend_table, value_table
from robust_attn.views.view import Headline, Statement, Tile, Tone, View, present
from robust_attn.views.words import counted, listed, sentence, share, shortened

RUNS_SHOWN = 1000
RUNS_DRAWN = 60
DECADES_DRAWN = 10.0
"""A promise further above the smallest number of all would flatten the figure, and is named below it."""
COLUMNS_OF_SETTINGS = 5
"""More settings than these share one column."""


def comparison_view(top: Path, runs: Sequence[Run], links: Mapping[Path, str]) -> View:
    """Every run below a folder; `links` lead to the reports of single runs, by their folders."""
    lines = run_lines(top, runs)
    gains = split_gains(lines)
    unfinished = [line for line in lines if not line.complete]
    return View(
        statement=Statement(headline(lines), extremes(lines), limits=_limits(lines)),
        tiles=_tiles(lines),
        tables=filled(_unfinished_table(unfinished), *_run_tables(top, runs, links)),
        panels=present(*along_panels(lines), *_side_by_side(lines), split_panel(gains)),
        terms=(words.GAIN, words.TIGHTNESS, words.LIPSCHITZ, *words.VERDICTS),
        details=filled(value_table(lines), split_table(gains), trend_table(lines)),
    )


def headline(lines: Sequence[RunLine]) -> Headline:
    """One verdict on the whole comparison, with the runs that did not end well."""
    failed = sum(not line.complete for line in lines)
    counts, (flipped, predictions) = _counts(lines), _flips(lines)
    total = sum(counts.values())
    more = f" {_flipped_words(flipped, predictions)}." if predictions else ""
    more += f" {counted(failed, 'run')} failed or did not finish." if failed else ""
    runs = counted(len(lines), "run")
    if counts[Verdict.VIOLATED]:
        broken = share(counts[Verdict.VIOLATED], total, "check")
        return Headline(Tone.VIOLATED, "A promise was broken", f"It was violated in {broken}, in {runs}.{more}")
    if not total and any(line.run.records for line in lines):
        records = counted(sum(len(line.run.records) for line in lines), "record")
        tone = Tone.FLIPPED if flipped else Tone.MEASURED
        return Headline(tone, "Measurements compared", f"{records} in {runs}, none with a verdict.{more}")
    if counts[Verdict.UNKNOWN] or not total:
        unknown = f"{counts[Verdict.UNKNOWN]} of {counted(total, 'check')}"
        detail = f"{unknown} ended without a finite number, or within rounding, in {runs}.{more}"
        return Headline(Tone.UNKNOWN, "Not every promise could be computed", detail)
    if counts[Verdict.VACUOUS]:
        title = f"No promise was broken, but {words.nothing_new(counts[Verdict.VACUOUS], total)}"
        trivial = f"In {share(counts[Verdict.VACUOUS], total, 'check')} the promise is no better than the trivial limit"
        return Headline(Tone.VACUOUS, title, f"{runs} compared. {trivial}.{more}")
    tone, title = (Tone.UNKNOWN, "Every promise held so far") if failed else (Tone.HOLDS, "Every promise held")
    return Headline(tone, title, f"{counted(total, 'check')} in {runs}.{more}")


def extremes(lines: Sequence[RunLine]) -> tuple[str, ...]:
    """Best and worst: the runs with the largest gain, and with the attacks nearest to and farthest below promises."""
    gains = [line for line in lines if line.gain is not None]
    shares = [line for line in lines if line.tightness is not None and line.observed is not None]
    found = []
    if gains:
        strongest = max(gains, key=lambda line: line.gain or 0.0)
        found.append(f"The strongest attack has gain {at_least(strongest.gain)} ({_named(strongest)}).")
    if len(shares) > 1:
        closest, farthest = (choose(shares, key=lambda line: line.tightness or 0.0) for choose in (max, min))
        found.append(
            f"The attack nearest to its promise reached {percent(closest.tightness)} of it ({_named(closest)}). Where "
            f"attacks stayed farthest below, they reached {percent(farthest.tightness)} at best ({_named(farthest)})."
        )
    return tuple(found)


def notes(runs: Sequence[Run]) -> tuple[str, ...]:
    """Loud notes of any run, each once with the model it is about, and what could not be read."""
    damaged = sum(run.damaged_lines for run in runs)
    said = dict.fromkeys(
        f"{facts.text_of(facts.fact(run, 'model'))}: {note}" for run in runs if (note := facts.weights_note(run))
    )
    lines = f"{counted(damaged, 'line')} of records could not be read (cut or damaged)."
    return (*said, *((lines,) if damaged else ()))


def _named(line: RunLine) -> str:
    if len(line.settings) > COLUMNS_OF_SETTINGS:
        return line.label
    return settings_label(line.settings) or line.label


def _limits(lines: Sequence[RunLine]) -> str:
    tasks = {line.task for line in lines}
    apart = " Runs of different tasks ask different questions: numbers are compared only where they mean the same."
    return f"Anything beyond what the report of each run says.{apart if len(tasks) > 1 else ''}"


def _tiles(lines: Sequence[RunLine]) -> tuple[Tile, ...]:
    complete = sum(line.complete for line in lines)
    counts, (flipped, total) = _counts(lines), _flips(lines)
    return present(
        Tile("Runs", str(len(lines)), f"{complete} complete"),
        Tile("Checks", str(sum(counts.values())), words.verdict_words(counts)) if any(counts.values()) else None,
        Tile("Flipped", f"{flipped} of {total}", "predictions") if total else None,
    )


def _counts(lines: Sequence[RunLine]) -> dict[Verdict, int]:
    return verdict_counts(verdict for line in lines for verdict in line.verdicts)


def _flips(lines: Sequence[RunLine]) -> tuple[int, int]:
    """How many predictions were flipped, of how many."""
    known = [line.flips for line in lines if line.flips]
    return sum(flipped for flipped, _ in known), sum(total for _, total in known)


def _unfinished_table(lines: Sequence[RunLine]) -> Table:
    fields: Fields[RunLine] = (
        texts("Run", lambda line: line.label, code=True),
        texts("Status", lambda line: line.run.status),
        counts("Records", lambda line: len(line.run.records)),
        texts("Message", lambda line: line.message),
    )
    note = (
        "What they wrote before is in the tables below. A run without an end is under way, or it was killed; write "
        "this report again to see how it went on."
    )
    return table_of("unfinished-table", "Runs that failed or did not finish", fields, lines, note=note, rest="")


def _run_tables(top: Path, runs: Sequence[Run], links: Mapping[Path, str]) -> tuple[Table, ...]:
    """A table per task, because tasks have different numbers; each with the settings in which its own runs differ."""
    tasks = list(dict.fromkeys(map(task_of, runs)))
    if len(tasks) == 1:
        return (_run_table("run-table", "Run by run", run_lines(top, runs), links),)
    groups = {task: run_lines(top, [run for run in runs if task_of(run) == task]) for task in tasks}
    titles = {task: "Runs that tell no task" if task == UNKNOWN else f"Runs of task={task}" for task in tasks}
    return tuple(_run_table(f"run-table-{task}", titles[task], group, links) for task, group in groups.items())


def _run_table(name: str, title: str, lines: Sequence[RunLine], links: Mapping[Path, str]) -> Table:
    together: Fields[RunLine] = (texts("Settings", lambda line: line.typed),)
    status: Fields[RunLine] = (texts("Status", lambda line: line.run.status),)
    keys = list(lines[0].settings)
    fields: Fields[RunLine] = (
        cells("Run", lambda line: Cell(line.label, link=links.get(line.run.folder, "")), left=True),
        cells("Verdicts", _verdicts, left=True),
        *(() if all(line.complete for line in lines) else status),
        *(together if len(keys) > COLUMNS_OF_SETTINGS else map(_setting_field, keys)),
        perhaps("Local constant, at least", lambda line: line.lipschitz, at_least, optional=True),
        perhaps("Largest gain", lambda line: line.gain, at_least, optional=True),
        perhaps("Observed", lambda line: line.observed, at_least, optional=True),
        perhaps("Certified", lambda line: line.certified, at_most, optional=True),
        perhaps("Tightness", lambda line: line.tightness, percent, optional=True),
        cells("Flipped", _flipped, optional=True),
        perhaps("Nearest flip", lambda line: line.flip_radius, at_most, optional=True),
        counts("Records", lambda line: len(line.run.records), optional=True),
    )
    note = "Of every run the worst over its layers and samples, each column by itself."
    return table_of(name, title, fields, lines, note=note, limit=RUNS_SHOWN, rest="")


def _setting_field(key: str) -> Field[RunLine]:
    return texts(key, lambda line: line.settings[key])


def _verdicts(line: RunLine) -> Cell:
    said = words.verdict_words(line.counts) or ("no verdicts" if line.run.records else "none yet")
    return Cell(said, verdict=line.verdict)


def _flipped_words(flipped: int, total: int) -> str:
    if total == 1:
        return f"The one prediction attacked {'was flipped' if flipped else 'was not flipped'}"
    return f"{sentence(share(flipped, total, 'prediction'))} {'was' if flipped == 1 else 'were'} flipped"


def _flipped(line: RunLine) -> Cell:
    return Cell(f"{line.flips[0]} of {line.flips[1]}", float(line.flips[0])) if line.flips else Cell(ABSENT)


def _side_by_side(lines: Sequence[RunLine]) -> list[Panel]:
    """The promise and the strongest attack of every run that has either; a panel per norm, for norms differ."""
    known = [line for line in lines if (line.observed or 0.0) > 0 or (line.certified or 0.0) > 0]
    kinds = sorted({line.budget for line in known}, key=lambda kind: -sum(line.budget == kind for line in known))
    groups = [(kind, [line for line in known if line.budget == kind]) for kind in kinds]
    return [_runs_panel(kind, some, only=len(kinds) == 1) for kind, some in groups if len(some) > 1]


def _runs_panel(kind: str, known: Sequence[RunLine], *, only: bool) -> Panel:
    lowest = min(value for line in known for value in (line.observed, line.certified) if value)
    far = [line for line in known if (line.certified or 0.0) > lowest * 10.0**DECADES_DRAWN]
    drawn = [line for line in known if line not in far][:RUNS_DRAWN]
    pairs = [[value for value in (line.observed, line.certified) if value] for line in drawn]
    many = f" The first {RUNS_DRAWN} runs are drawn." if len(known) > RUNS_DRAWN else ""
    beyond = listed((f"{_short(line)} ({at_most(line.certified)})" for line in far), 4)
    many += f" Far above the axis: {beyond}." if far else ""
    return Panel(
        "runs" if only else f"runs-{kind}",
        "Run by run" if only else f"Run by run, budgets of kind {kind}",
        "run",
        "change of the output",
        {
            "observed": positive_line(enumerate(line.observed for line in drawn)),
            "certified": positive_line(enumerate(line.certified for line in drawn)),
        },
        looks={"observed": Look(Role.OBSERVED), "certified": Look(Role.CERTIFIED)},
        categories=tuple(_short(line) for line in drawn),
        ranges=tuple((float(place), min(pair), max(pair)) for place, pair in enumerate(pairs)),
        caption=f"Blue: the largest promise of the run. Orange: the strongest attack. A short line is a tight promise."
        f"{many}",
        description=f"{len(drawn)} runs",
    )


def _short(line: RunLine) -> str:
    told = ", ".join(value for value in line.settings.values() if value != UNSTATED)
    return shortened(told if told and len(line.settings) <= COLUMNS_OF_SETTINGS else line.label, 30)

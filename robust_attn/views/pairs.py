"""Two runs side by side, pair by pair: what differs in numbers, and what differs in settings."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, field

from robust_attn.records.pairing import Pairing, pairing
from robust_attn.records.store import Run
from robust_attn.types import UserError, Verdict
from robust_attn.views import facts
from robust_attn.views.differences import (
    CONFIDENCE,
    RESAMPLES,
    SEED,
    Difference,
    Interval,
    Paired,
    differences,
    interval,
)
from robust_attn.views.numerals import plain
from robust_attn.views.panel import Look, Panel, Role
from robust_attn.views.table import ABSENT, Cell, Fields, Table, cells, count, counts, number, perhaps, table_of, texts
from robust_attn.views.view import Headline, Statement, Tile, Tone, View
from robust_attn.views.words import counted, listed

PAIRS_DRAWN = 30
FIGURES = 4
SAID = 3
NAMED = 12
TABLE = "compare.csv"
MORE = "B\u00a0−\u00a0A"
SURE = f"{100 * CONFIDENCE:g} %"
SKIPPED = ("tracker.", "hydra.")
_TERMS = (
    ("Pair", "A record of each run about the same row or sample, layer and head, and attack where there are several."),
    (MORE, "How much more the second run has, as a mean over the samples."),
    ("Interval", f"Where that mean lies with {SURE} confidence if the samples are typical of others."),
)


@dataclass(frozen=True)
class Comparison:
    """Two runs by their names, their pairs, and every quantity that both know; `first` is the reference."""

    names: tuple[str, str]
    runs: tuple[Run, Run]
    paired: Pairing
    found: tuple[Difference, ...]
    intervals: Mapping[str, Interval | None] = field(default_factory=dict)


def comparison_of(first: Run, second: Run) -> Comparison:
    """A UserError of one sentence where the runs have nothing in common."""
    for run in (first, second):
        if not run.records:
            raise UserError(f"{run.folder} holds no readable record, so there is nothing to compare.")
    paired = pairing(first.records, second.records)
    found = differences(paired.pairs)
    if not found:
        kinds = [", ".join(dict.fromkeys(record.kind for record in run.records)) for run in (first, second)]
        raise UserError(
            f"no record of {first.folder} ({kinds[0]}) has a number that one of {second.folder} ({kinds[1]}) has too, "
            "for the same row or sample and layer."
        )
    names = _names(first, second)
    return Comparison(names, (first, second), paired, found, {each.name: interval(each.by_sample) for each in found})


def pairs_view(compared: Comparison) -> View:
    """What a person sees."""
    return View(
        statement=Statement(_headline(compared), _promises(compared), limits=_limits(compared)),
        tiles=_tiles(compared),
        tables=(_difference_table(compared), *_settings_table(compared)),
        panels=tuple(_panel(compared, each) for each in compared.found[:FIGURES]),
        terms=_TERMS,
        details=(*_unpaired_table(compared), _pairs_table(compared)),
        files={TABLE: pairs_csv(compared)},
        question="which is more robust?",
    )


def pairs_csv(compared: Comparison) -> str:
    """Every number of every pair, in full."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["place", "quantity", "a", "b", "difference"])
    for found in compared.found:
        lines.writerows([one.place, found.name, one.first, one.second, one.difference] for one in found.pairs)
    return text.getvalue()


def pairs_notes(compared: Comparison) -> tuple[str, ...]:
    """What must be known before the numbers are believed."""
    notes = []
    for letter, run in zip("AB", compared.runs, strict=True):
        broken = sum(record.stated is Verdict.VIOLATED for record in run.records)
        said = (
            facts.state_note(run),
            f"{counted(broken, 'certificate')} of this run did not hold: its numbers prove nothing." if broken else "",
            facts.weights_note(run),
            "" if run.config else "its settings are not known, because it has no .hydra folder.",
        )
        notes += [f"{letter}: {one}" for one in said if one]
    other = [pair.place for pair in compared.paired.pairs if not pair.same_input]
    if other:
        those = counted(len(other), "pair")
        notes.append(f"{those} read different inputs, so what differs may be the input: {listed(other, NAMED)}.")
    return tuple(notes)


def _names(first: Run, second: Run) -> tuple[str, str]:
    """By their folders, with as much of the path as tells them apart."""
    paths = [run.folder.resolve() for run in (first, second)]
    if paths[0].name != paths[1].name:
        return paths[0].name, paths[1].name
    return f"{paths[0].parent.name}/{paths[0].name}", f"{paths[1].parent.name}/{paths[1].name}"


def _headline(compared: Comparison) -> Headline:
    first, second = compared.names
    told = [each for each in compared.found if _is_told(compared, each)]
    total = counted(len(compared.found), "quantity")
    title = f"{len(told)} of {total} differ" if told else "No difference can be told"
    paired = counted(len(compared.paired.pairs), "pair")
    return Headline(Tone.MEASURED, title, f"A is {first}, B is {second}: {paired} of records of the same samples.")


def _is_told(compared: Comparison, found: Difference) -> bool:
    """Whether the interval of the difference leaves out zero."""
    bounds = compared.intervals[found.name]
    return bounds is not None and (bounds[0] > 0 or bounds[1] < 0)


def _promises(compared: Comparison) -> tuple[str, ...]:
    return tuple(_sentence(compared, each) for each in compared.found[:SAID])


def _sentence(compared: Comparison, found: Difference) -> str:
    bounds = compared.intervals[found.name]
    between = f"{SURE} interval {_between(bounds)}" if bounds else "one sample, so no interval"
    side = "B has more" if found.mean > 0 else "B has less" if found.mean < 0 else "no difference"
    sure = side if _is_told(compared, found) else "cannot be told from no difference"
    return (
        f"{found.name}: {_signed(found.mean)} on average ({between}): {sure}. More in {found.larger}, less in "
        f"{found.smaller} of {counted(len(found.pairs), 'pair')}."
    )


def _limits(compared: Comparison) -> str:
    alone = sum(each.alone for each in compared.found)
    left = f" In {counted(alone, 'case')} only one run knows a number; these are left out, not counted as equal."
    return f"Anything about samples that are not like these.{left if alone else ''}"


def _tiles(compared: Comparison) -> tuple[Tile, ...]:
    paired = compared.paired
    tiles = [Tile("Pairs", str(len(paired.pairs)), "records of both runs about the same sample")]
    tiles.append(Tile("Only in A", str(len(paired.only_first)), "records without a partner"))
    tiles.append(Tile("Only in B", str(len(paired.only_second)), "records without a partner"))
    tiles.append(Tile("Settings", str(len(_settings_apart(compared))), "differ between the runs"))
    return tuple(tiles)


def _difference_table(compared: Comparison) -> Table:
    fields: Fields[Difference] = (
        texts("Quantity", lambda found: found.name, code=True),
        counts("Pairs", lambda found: len(found.pairs)),
        perhaps("Mean A", lambda found: sum(one.first for one in found.pairs) / len(found.pairs), optional=True),
        perhaps("Mean B", lambda found: sum(one.second for one in found.pairs) / len(found.pairs), optional=True),
        cells(MORE, lambda found: Cell(_signed(found.mean), found.mean)),
        cells("Interval", lambda found: _interval_cell(compared.intervals[found.name])),
        perhaps("Median B\u00a0/\u00a0A", lambda found: found.ratio, optional=True),
        counts("More", lambda found: found.larger),
        counts("Less", lambda found: found.smaller),
        cells("Known in one only", lambda found: count(found.alone) if found.alone else Cell(ABSENT), optional=True),
        texts("Differs", lambda found: _told(compared, found)),
    )
    note = (
        f"The difference is a mean over samples, of a sample with several records their mean. Its interval is SciPy's "
        f"bootstrap (BCa, {SURE}, {RESAMPLES} resamples of the samples, seed {SEED}); one quantity in "
        "twenty is expected to differ by chance alone."
    )
    return table_of("difference-table", "What differs", fields, compared.found, note=note, terminal=True, rest="")


def _told(compared: Comparison, found: Difference) -> str:
    if _is_told(compared, found):
        return "yes"
    return "cannot be told" if found.larger or found.smaller else "the same"


def _interval_cell(bounds: Interval | None) -> Cell:
    return Cell(ABSENT) if bounds is None else Cell(_between(bounds), bounds[0])


def _between(bounds: Interval) -> str:
    return f"{_signed(bounds[0])} to {_signed(bounds[1])}"


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else '−' if value < 0 else ''}{plain(abs(value))}"


def _settings_table(compared: Comparison) -> tuple[Table, ...]:
    apart = _settings_apart(compared)
    fields: Fields[tuple[str, str | None, str | None]] = (
        texts("Setting", lambda one: one[0], code=True),
        texts("A", lambda one: one[1]),
        texts("B", lambda one: one[2]),
    )
    note, title = "All others are the same.", "Settings that differ"
    return (table_of("settings-table", title, fields, apart, note=note, terminal=True, rest=""),) if apart else ()


def _settings_apart(compared: Comparison) -> list[tuple[str, str | None, str | None]]:
    left, right = map(_told_settings, compared.runs)
    keys = dict.fromkeys((*left, *right))
    return [(key, left.get(key), right.get(key)) for key in keys if left.get(key) != right.get(key)]


def _told_settings(run: Run) -> dict[str, str]:
    kept = {key: text for key, text in facts.flattened(run.config).items() if not key.startswith(SKIPPED)}
    about = {"weights as read": facts.fact(run, "weights"), "commit": (run.environment or {}).get("commit")}
    return kept | {key: str(value) for key, value in about.items() if value is not None}


def _unpaired_table(compared: Comparison) -> tuple[Table, ...]:
    alone = [("A", place) for place in compared.paired.only_first] + [("B", p) for p in compared.paired.only_second]
    fields: Fields[tuple[str, str]] = (texts("Only in", lambda one: one[0]), texts("Where", lambda one: one[1]))
    note = f"{len(compared.paired.only_first)} in A alone, {len(compared.paired.only_second)} in B alone: not compared."
    made = table_of("unpaired-table", "Records without a partner", fields, alone, note=note, terminal=True, rest="")
    return (made,) if alone else ()


def _pairs_table(compared: Comparison) -> Table:
    every = [(found, one) for found in compared.found for one in found.pairs]
    fields: Fields[tuple[Difference, Paired]] = (
        texts("Where", lambda pair: pair[1].place),
        texts("Quantity", lambda pair: pair[0].name, code=True),
        cells("A", lambda pair: number(pair[1].first)),
        cells("B", lambda pair: number(pair[1].second)),
        cells(MORE, lambda pair: Cell(_signed(pair[1].difference), pair[1].difference)),
    )
    note = f"Every digit is in {TABLE} beside this file."
    return table_of("pairs-table", "Pair by pair", fields, every, note=note, terminal=False, rest=TABLE)


def _panel(compared: Comparison, found: Difference) -> Panel:
    drawn = sorted(found.pairs, key=lambda one: (one.first, one.second))[:PAIRS_DRAWN]
    positive = all(one.first > 0 and one.second > 0 for one in drawn)
    many = f" The {PAIRS_DRAWN} smallest of {len(found.pairs)} are drawn." if len(found.pairs) > len(drawn) else ""
    return Panel(
        f"compare-{found.name.replace('.', '-')}",
        found.name,
        "pair",
        f"{found.name}{' (logarithmic)' if positive else ''}",
        {
            "A": tuple((float(place), one.first) for place, one in enumerate(drawn)),
            "B": tuple((float(place), one.second) for place, one in enumerate(drawn)),
        },
        looks={"A": Look(Role.SERIES, "A"), "B": Look(Role.SERIES, "B")},
        log_y=positive,
        categories=tuple(one.place for one in drawn),
        ranges=tuple((float(n), min(one.first, one.second), max(one.first, one.second)) for n, one in enumerate(drawn)),
        caption=f"A is {compared.names[0]}, B is {compared.names[1]}; in the order of A.{many}",
    )

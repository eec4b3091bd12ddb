"""Campaigns that look for a broken promise: how many cases, how near they came, what is unknown."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from robust_attn.records.kinds import CarriedRecord, CaseRecord, Record, of_kind
from robust_attn.records.parts import Approach, Findings
from robust_attn.records.store import Run
from robust_attn.types import Verdict
from robust_attn.views.numerals import percent, plain
from robust_attn.views.panel import Look, Panel, Role
from robust_attn.views.table import LARGEST, Cell, Fields, Table, cells, counts, filled, table_of, texts, verdicts
from robust_attn.views.view import Headline, Statement, Tile, Tone, View, present
from robust_attn.views.words import UNKNOWN, counted, duration, listed

_TERMS = (
    (
        "Case",
        "A layer, tokens, a budget and an attack, or a whole model and an input, drawn from one number, the seed.",
    ),
    ("Approach", "What was observed over what is allowed: 1 would be exact, more a broken promise."),
    (
        "certified_prediction",
        "Of a whole model: a certified radius over the nearest flip that attacks found; 0 where they found none.",
    ),
    ("Exact", "Decided by exact arithmetic, so that rounding plays no part."),
    UNKNOWN,
)


def campaign_view(run: Run) -> View:
    """A campaign."""
    cases, told = of_kind(run.records, CaseRecord), findings_of(run.records)
    broken = [case for case in cases if case.verdict is Verdict.VIOLATED]
    unknown = [case for case in cases if case.judged is Verdict.UNKNOWN]
    return View(
        statement=_statement(run.records, told, len(unknown)),
        tiles=_tiles(told),
        tables=filled(_case_table([*broken, *unknown]), _closest_table(told)),
        panels=present(_panel(told)),
        terms=_TERMS,
        details=filled(_drawn_table(told), _reason_table(told)),
        question="does any promise break?",
    )


def findings_of(records: Sequence[Record]) -> Findings:
    """What the cases amount to; a record of an earlier campaign counts as all of its cases."""
    parts = [record.carried for record in of_kind(records, CarriedRecord)]
    parts += map(_of_one, of_kind(records, CaseRecord))
    closest: dict[str, Approach] = {}
    drawn: defaultdict[str, Counter[str]] = defaultdict(Counter)
    unknown: Counter[str] = Counter()
    for part in parts:
        unknown.update(part.unknown)
        for field, often in part.drawn.items():
            drawn[field].update(often)
        for name, approach in part.closest.items():
            if name not in closest or _size(approach) > _size(closest[name]):
                closest[name] = approach
    seconds = sum(part.seconds or 0.0 for part in parts)
    cases = sum(part.cases for part in parts)
    return Findings(
        cases=cases,
        comparisons=sum(part.comparisons for part in parts),
        exact=sum(part.exact for part in parts),
        violations=sum(part.violations for part in parts),
        unknown_cases=sum(part.unknown_cases for part in parts),
        seconds=round(seconds, 3),
        cases_per_minute=round(60 * cases / seconds, 1) if seconds > 0 else None,
        last_seed=max((part.last_seed for part in parts), default=0),
        models=sum(part.models for part in parts),
        last_model=max((part.last_model for part in parts), default=-1),
        unknown=dict(sorted(unknown.items())),
        drawn={field: dict(sorted(counts.items())) for field, counts in drawn.items()},
        closest=dict(sorted(closest.items())),
    )


def _of_one(record: CaseRecord) -> Findings:
    """The findings of one case; what it was drawn as are those of its fields that hold words."""
    whole = record.layer is None
    return Findings(
        cases=1,
        comparisons=record.comparisons,
        exact=record.exact,
        violations=len(record.violated),
        unknown_cases=int(record.verdict is Verdict.UNKNOWN),
        seconds=record.seconds,
        last_seed=-1 if whole else record.seed,
        models=int(whole),
        last_model=record.seed if whole else -1,
        unknown=Counter(reason.split(":")[0] for reason in record.unknown),
        drawn={field: {value: 1} for field, value in record.case.items() if isinstance(value, str)},
        closest={name: Approach(approach=value, seed=record.seed) for name, value in record.closest.items()},
    )


def _size(found: Approach) -> float:
    """None stands for what is above a bound of zero."""
    return math.inf if found.approach is None else found.approach


def _statement(records: Sequence[Record], found: Findings, unknown: int) -> Statement:
    broken = any(record.judged is Verdict.VIOLATED for record in records)
    counts = (
        f"{counted(found.cases, 'case')} drawn{_of_whole(found)}, {counted(found.comparisons, 'promise')} compared "
        f"with what the strongest attacks reached, {found.exact} of them in exact arithmetic"
    )
    if broken:
        detail = f"{counts}: {found.violations} exceeded. The bound, or the code that computed it, is wrong."
        headline = Headline(Tone.VIOLATED, "A promise was broken", detail)
    elif unknown or any(record.judged is Verdict.UNKNOWN for record in records):
        detail = f"{counts}. About {counted(unknown, 'case')} nothing can be said, although something should."
        headline = Headline(Tone.UNKNOWN, "No promise was broken, but not every case could be judged", detail)
    elif not found.comparisons:
        headline = Headline(Tone.UNKNOWN, "Nothing was compared", f"{counts}.")
    else:
        headline = Headline(Tone.HOLDS, "No promise was broken", f"{counts}: none exceeded.")
    said = (
        "Nothing is promised: look into the cases below before anything else."
        if broken
        else "Every promise that could be judged was kept. That is evidence, not proof: what is proved stands in "
        "docs/proofs."
    )
    return Statement(headline, (said,), limits="Anything about cases that were not drawn.")


def _of_whole(found: Findings) -> str:
    return f" ({counted(found.models, 'whole model')} among them)" if found.models else ""


def _tiles(found: Findings) -> tuple[Tile, ...]:
    closest = max(found.closest.values(), key=_size, default=None)
    approach = "above zero" if closest and closest.approach is None else percent(closest.approach if closest else None)
    return (
        Tile("Broken", str(found.violations), f"of {found.comparisons} comparisons"),
        Tile("Cases", str(found.cases), f"{plain(found.cases_per_minute)} a minute, {duration(found.seconds)} in all"),
        Tile("Closest approach", approach, "of what is allowed; bounds that are attained come to 100\u00a0%"),
        Tile("Unknown", str(found.unknown_cases), "cases about which nothing can be said"),
    )


def _closest_table(found: Findings) -> Table:
    fields: Fields[tuple[str, Approach]] = (
        texts("Bound", lambda pair: pair[0], code=True),
        cells("Closest approach", lambda pair: _approach(pair[1].approach)),
        counts("Seed", lambda pair: pair[1].seed),
    )
    nearest = sorted(found.closest.items(), key=lambda pair: -_size(pair[1]))
    note = (
        f"{counted(found.cases, 'case')}, {counted(found.comparisons, 'comparison')}, {found.exact} of them exact, "
        f"{counted(found.violations, 'violation')}, {counted(found.unknown_cases, 'case')} unknown; last seed "
        f"{found.last_seed}. Observed over allowed: 1 would be exact, more a broken promise."
    )
    return table_of("closest-table", "The closest approach to every bound", fields, nearest, note=note, terminal=True)


def _approach(value: float | None) -> Cell:
    """Rounded away from 1, which only a bound that is attained exactly comes to."""
    if value is None:
        return Cell("above zero", LARGEST)
    rounded = (math.floor if value < 1 else math.ceil)(value * 1e9) / 1e9
    return Cell(f"{rounded:.9f}", value)


def _case_table(cases: Sequence[CaseRecord]) -> Table:
    fields: Fields[CaseRecord] = (
        counts("Seed", lambda case: case.seed),
        texts("Attack", lambda case: case.attack),
        texts("Exceeded", lambda case: listed(case.violated), code=True),
        texts("Why unknown", lambda case: listed(case.unknown)),
        verdicts(lambda case: case.verdict),
    )
    return table_of("case-table", "Cases that ask for attention", fields, cases, terminal=True)


def _drawn_table(found: Findings) -> Table:
    fields: Fields[tuple[str, Mapping[str, int]]] = (
        texts("Of each case", lambda pair: pair[0].replace("_", " ")),
        texts("How often", lambda pair: ", ".join(f"{name} {number}" for name, number in pair[1].items())),
    )
    return table_of("drawn-table", "What was drawn", fields, [pair for pair in found.drawn.items() if pair[1]])


def _reason_table(found: Findings) -> Table:
    fields: Fields[tuple[str, int]] = (texts("Reason", lambda pair: pair[0]), counts("Cases", lambda pair: pair[1]))
    note = "Also of cases that were drawn so that nothing can be known, where UNKNOWN is the right answer."
    return table_of("reason-table", "Why nothing can be said", fields, list(found.unknown.items()), note=note)


def _panel(found: Findings) -> Panel | None:
    known = {name: one.approach for name, one in found.closest.items() if one.approach}
    ordered = sorted(known, key=lambda name: -(known[name] or 0.0))
    if not ordered:
        return None
    points = tuple((float(place), known[name] or 0.0) for place, name in enumerate(ordered))
    return Panel(
        "closest",
        "How near observations came to each bound",
        "bound",
        "observed / allowed",
        {"closest approach": points},
        looks={"closest approach": Look(Role.OBSERVED)},
        categories=tuple(ordered),
        level=1.0,
        caption="At the orange line a bound is attained; a point beyond it would be a broken promise.",
    )

"""Records as the rows of a table: one flat line of typed values, with nothing that pretends to be known."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from robust_attn.report.ladder import Rung, best_upper, ladder_of
from robust_attn.report.numerals import finite, integer_at, number_at
from robust_attn.types import Verdict

NO_ATTACKS = ("none", "")
_FROM_BAD_TO_GOOD = (Verdict.VIOLATED, Verdict.UNKNOWN, Verdict.VACUOUS, Verdict.HOLDS)


@dataclass(frozen=True)
class Row:
    """One record; None is what the record does not know."""

    layer: int | None
    head: int | None
    sample: int | None
    tokens: int | None
    copies: int | None
    attack: str
    attacked: bool
    input_change: float | None
    observed: float | None
    gain: float | None
    lipschitz: float | None
    paper_log10: float | None
    certified: float | None
    bound: str
    scope: str
    failure_probability: float | None
    tightness: float | None
    verdict: Verdict
    ladder: tuple[Rung, ...]
    convergence: tuple[float | None, ...]


@dataclass(frozen=True)
class LayerRow:
    """One layer: `certified` (by `bound`) covers all of its samples, `worst` is the one that matters most."""

    layer: int | None
    samples: int
    certified: float | None
    bound: str
    scope: str
    worst: Row

    @property
    def verdict(self) -> Verdict:
        """That of the worst sample: a bad one comes before any other."""
        return self.worst.verdict


def row_of(record: dict[str, Any]) -> Row:
    """The row of one record."""
    attack = str(record.get("attack") or "none")
    certified = record.get("certified") if isinstance(record.get("certified"), dict) else {}
    bound = str((certified or {}).get("bound") or "")
    ladder = ladder_of(record)
    paper = best_upper(ladder, prefix="paper.")
    steps = record.get("convergence")
    return Row(
        layer=integer_at(record, "layer"),
        head=integer_at(record, "head"),
        sample=integer_at(record, "sample"),
        tokens=integer_at(record, "tokens"),
        copies=integer_at(record, "copies"),
        attack=attack,
        attacked=attack not in NO_ATTACKS,
        input_change=number_at(record, "observed.input_change"),
        observed=number_at(record, "observed.output_change"),
        gain=number_at(record, "observed.gain"),
        lipschitz=number_at(record, "lipschitz.upper"),
        paper_log10=paper.log10 if paper else None,
        certified=number_at(record, "certified.output_change"),
        bound=bound,
        scope=next((rung.scope for rung in ladder if rung.name == bound), ""),
        failure_probability=_failure_probability(record),
        tightness=number_at(record, "tightness"),
        verdict=_verdict(record),
        ladder=ladder,
        convergence=tuple(finite(step) for step in steps) if isinstance(steps, list) else (),
    )


def rows_of(records: Iterable[dict[str, Any]]) -> tuple[Row, ...]:
    """One row per record, in order."""
    return tuple(row_of(record) for record in records)


def _verdict(record: dict[str, Any]) -> Verdict:
    """What the record says, except that nothing is promised where the certified number is not known."""
    said = str(record.get("verdict"))
    verdict = Verdict(said) if said in set(Verdict) else Verdict.UNKNOWN
    known = number_at(record, "certified.output_change") is not None
    return verdict if known or verdict is Verdict.VIOLATED else Verdict.UNKNOWN


def _failure_probability(record: dict[str, Any]) -> float | None:
    """That of all the record promises: its certified radius rests on the estimate of its certificate, one event."""
    stated = number_at(record, "certified.failure_probability")
    of_radius = number_at(record, "certified_radius.failure_probability")
    return stated if stated is None or of_radius is None else max(stated, of_radius)


def stated_verdicts(records: Iterable[dict[str, Any]]) -> list[Verdict]:
    """The verdicts that records of any kind state, as they state them; what is no verdict is left out."""
    return [Verdict(said) for record in records if (said := str(record.get("verdict"))) in set(Verdict)]


def worst_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of a whole from those of its parts; nothing at all is UNKNOWN."""
    seen = set(verdicts)
    return next((verdict for verdict in _FROM_BAD_TO_GOOD if verdict in seen), Verdict.UNKNOWN)


def verdict_counts(rows: Iterable[Row]) -> dict[Verdict, int]:
    """How often each verdict was given, every verdict present."""
    counts = Counter(row.verdict for row in rows)
    return {verdict: counts[verdict] for verdict in Verdict}


def by_layer(rows: Sequence[Row]) -> tuple[LayerRow, ...]:
    """One line per layer, in order; a layer with an unknown promise has no promise for all its samples."""
    groups: defaultdict[int | None, list[Row]] = defaultdict(list)
    whole = [row for row in rows if row.head is None]  # what one head promises is not a promise of its layer
    for row in whole:
        groups[row.layer].append(row)
    order = sorted(groups, key=lambda layer: math.inf if layer is None else layer)
    return tuple(_layer_row(layer, groups[layer]) for layer in order)


def _layer_row(layer: int | None, rows: Sequence[Row]) -> LayerRow:
    widest = max(rows, key=lambda row: math.inf if row.certified is None else row.certified)
    return LayerRow(
        layer=layer,
        samples=len({row.sample for row in rows}),
        certified=widest.certified,
        bound=widest.bound,
        scope=widest.scope,
        worst=max(rows, key=concern),
    )


def concern(row: Row) -> tuple[int, float, float]:
    """What makes one row worse than another: a bad verdict, else a promise more nearly reached, else a larger one."""
    return (
        len(_FROM_BAD_TO_GOOD) - _FROM_BAD_TO_GOOD.index(row.verdict),
        row.tightness or 0.0,
        math.inf if row.certified is None else row.certified,
    )


def place_of(row: Row) -> str:
    """Where a row was measured, in words; what is not known is left out."""
    places = (("layer", row.layer), ("head", row.head), ("sample", row.sample))
    return ", ".join(f"{name} {place}" for name, place in places if place is not None) or "place not stated"


def largest(values: Iterable[float | None]) -> float | None:
    """The largest known value, or None when none is known."""
    return max((value for value in values if value is not None), default=None)


def covering(rows: Iterable[Row]) -> float | None:
    """The promise that covers every row: unknown as soon as one of them is, and where there is none."""
    values = [row.certified for row in rows]
    return None if None in values else largest(values)


def ranks_in_layer(rows: Sequence[Row]) -> list[int]:
    """For each row how many of its layer are worse: 0 for the worst one."""
    order = sorted(range(len(rows)), key=lambda index: concern(rows[index]), reverse=True)
    ranks, seen = [0] * len(rows), Counter[int | None]()
    for index in order:
        ranks[index] = seen[rows[index].layer]
        seen[rows[index].layer] += 1
    return ranks


def shown_first(rows: Sequence[Row], limit: int) -> tuple[Row, ...]:
    """At most `limit` rows in their order: those that ask for attention, then the worst of every layer alike."""
    bad = [row.verdict in (Verdict.VIOLATED, Verdict.UNKNOWN) for row in rows]
    ranks = ranks_in_layer(rows)
    chosen = sorted(range(len(rows)), key=lambda index: (not bad[index], ranks[index]))[:limit]
    return tuple(rows[index] for index in sorted(chosen))

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
    """The worst of one layer over its samples: the promise that covers them all, and the strongest attack on them."""

    layer: int | None
    samples: int
    certified: float | None
    observed: float | None
    gain: float | None
    lipschitz: float | None
    tightness: float | None
    bound: str
    scope: str
    verdict: Verdict


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
        failure_probability=number_at(record, "certified.failure_probability"),
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


def worst_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of a whole from those of its parts; nothing at all is UNKNOWN."""
    seen = set(verdicts)
    order = (Verdict.VIOLATED, Verdict.UNKNOWN, Verdict.VACUOUS, Verdict.HOLDS)
    return next((verdict for verdict in order if verdict in seen), Verdict.UNKNOWN)


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
        observed=largest(row.observed for row in rows if row.attacked),
        gain=largest(row.gain for row in rows if row.attacked),
        lipschitz=largest(row.lipschitz for row in rows),
        tightness=largest(row.tightness for row in rows if row.attacked),
        bound=widest.bound,
        scope=widest.scope,
        verdict=worst_verdict(row.verdict for row in rows),
    )


def largest(values: Iterable[float | None]) -> float | None:
    """The largest known value, or None when none is known."""
    return max((value for value in values if value is not None), default=None)


def covering(rows: Iterable[Row]) -> float | None:
    """The promise that covers every row: unknown as soon as one of them is, and where there is none."""
    values = [row.certified for row in rows]
    return None if None in values else largest(values)


def shown_first(rows: Sequence[Row], limit: int) -> tuple[Row, ...]:
    """At most `limit` rows in their order: those that ask for attention, then those where the attack came closest."""

    def concern(index: int) -> tuple[int, float]:
        row = rows[index]
        rank = {Verdict.VIOLATED: 0, Verdict.UNKNOWN: 1}.get(row.verdict, 2)
        return rank, -(row.tightness if row.tightness is not None else -math.inf)

    chosen = sorted(range(len(rows)), key=concern)[:limit]
    return tuple(rows[index] for index in sorted(chosen))

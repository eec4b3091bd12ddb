"""What a run amounts to, before it is put into a format."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from robust_attn.report import facts, words
from robust_attn.report.load import Run
from robust_attn.report.numerals import at_least, at_most, number_at, percent
from robust_attn.report.rows import LayerRow, Row, by_layer, covering, largest, rows_of, verdict_counts
from robust_attn.types import Verdict


@dataclass(frozen=True)
class Findings:
    """Everything that the report of one run says."""

    run: Run
    rows: tuple[Row, ...]
    layers: tuple[LayerRow, ...]
    headline: words.Headline
    promise: str
    confidence: str
    example: Row | None


def findings_of(run: Run) -> Findings:
    """What the records of a run amount to."""
    rows = rows_of(run.records)
    layers = by_layer(rows)
    return Findings(
        run=run,
        rows=rows,
        layers=layers,
        headline=words.headline(rows),
        promise=words.promise(rows, layers, facts.setting_of(run)),
        confidence=words.confidence(rows),
        example=example_row(rows),
    )


def tiles(findings: Findings) -> tuple[tuple[str, str, str], ...]:
    """The summary numbers: label, number, what it means."""
    rows = findings.rows
    counts = verdict_counts(rows)
    attacked = [row for row in rows if row.attacked]
    good = f"{counts[Verdict.HOLDS]} of {len(rows)}"
    cells = [("Promises that hold", good, "layer, text and attack combinations checked")]
    covered = covering(rows)
    meaning = "no output moves further, in any layer" if covered is not None else "at least one promise is missing"
    cells.append(("Largest promise", at_most(covered), meaning))
    if attacked:
        gain = largest(row.gain for row in attacked)
        tight = largest(row.tightness for row in attacked)
        cells.append(("Largest gain seen", at_least(gain), "output change per unit of input change"))
        cells.append(("Closest attack", percent(tight), "of what is promised; 100 % leaves no room"))
    seconds = number_at(findings.run.summary or {}, "seconds")
    if seconds is not None:
        cells.append(("Time taken", words.duration(seconds), "for the whole run"))
    return tuple(cells)


def example_row(rows: Sequence[Row]) -> Row | None:
    """The row whose ladder is shown: a broken promise if there is one, else where the attack came closest."""

    def concern(row: Row) -> tuple[bool, float]:
        return row.verdict is Verdict.VIOLATED, -math.inf if row.tightness is None else row.tightness

    return max((row for row in rows if row.ladder), key=concern, default=None)

"""What a run amounts to, before it is put into a format."""

from collections.abc import Sequence
from dataclasses import dataclass

from robust_attn.report import facts, words
from robust_attn.report.certificates import CertificateRow, certificate_rows, radius_promise, smallest_radius
from robust_attn.report.generic import GenericTable, generic_tables
from robust_attn.report.kinds import Kinds, kinds_of
from robust_attn.report.load import Run
from robust_attn.report.numerals import at_least, at_most, number_at, percent, plain
from robust_attn.report.passages import Passages, passages_of
from robust_attn.report.rows import LayerRow, Row, by_layer, concern, covering, largest, rows_of, verdict_counts
from robust_attn.report.sensitivity import Constant, Growth, constants_of, growth_of, search_row
from robust_attn.report.statement import (
    Statement,
    check_statement,
    constant_statement,
    leading,
    nothing_statement,
    other_statement,
    search_statement,
)
from robust_attn.types import Verdict

Tile = tuple[str, str, str]


@dataclass(frozen=True)
class Findings:
    """Everything that the report of one run says; `statement` heads it, `promises` has one sentence per kind."""

    run: Run
    rows: tuple[Row, ...]
    layers: tuple[LayerRow, ...]
    certificates: tuple[CertificateRow, ...]
    searches: tuple[Row, ...]
    constants: tuple[Constant, ...]
    growth: tuple[Growth, ...]
    others: tuple[GenericTable, ...]
    passages: Passages
    statement: Statement
    promises: tuple[str, ...]
    example: Row | None
    search_example: Row | None


def findings_of(run: Run) -> Findings:
    """What the records of a run amount to."""
    kinds = kinds_of(run.records)
    rows = rows_of(kinds.checks)
    layers = by_layer(rows)
    certificates = certificate_rows(kinds.checks)
    searches = tuple(search_row(record) for record in kinds.searches)
    constants = constants_of(kinds.constants)
    statements = _statements(run, kinds, rows, searches, constants)
    return Findings(
        run=run,
        rows=rows,
        layers=layers,
        certificates=certificates,
        searches=searches,
        constants=constants,
        growth=growth_of(constants),
        others=generic_tables(kinds.others),
        passages=passages_of(run, kinds.checks, rows),
        statement=leading(statements),
        promises=tuple(filter(None, (*(statement.promise for statement in statements), radius_promise(certificates)))),
        example=example_row(rows),
        search_example=example_row(searches),
    )


def _statements(
    run: Run, kinds: Kinds, rows: Sequence[Row], searches: Sequence[Row], constants: Sequence[Constant]
) -> list[Statement]:
    statements = []
    if rows:
        statements.append(check_statement(rows, by_layer(rows), facts.setting_of(run)))
    if searches:
        radii = [radius for record in kinds.searches if (radius := number_at(record, "radius")) is not None]
        statements.append(search_statement(searches, radii))
    if constants:
        statements.append(constant_statement(constants))
    if kinds.others:
        statements.append(other_statement(kinds.others))
    return statements or [nothing_statement()]


def tiles(findings: Findings) -> tuple[Tile, ...]:
    """The summary numbers: label, number, what it means."""
    cells = [*_check_tiles(findings.rows), *_radius_tiles(findings.certificates)]
    cells += [*_search_tiles(findings.searches), *_constant_tiles(findings.constants)]
    if findings.others:
        number = sum(table.records for table in findings.others)
        cells.append(("Records", str(number), "of an experiment, shown below as they are"))
    seconds = number_at(findings.run.summary or {}, "seconds")
    if seconds is not None:
        cells.append(("Time taken", words.duration(seconds), "for the whole run"))
    return tuple(cells)


def _check_tiles(rows: Sequence[Row]) -> list[Tile]:
    if not rows:
        return []
    attacked = [row for row in rows if row.attacked]
    good = f"{verdict_counts(rows)[Verdict.HOLDS]} of {len(rows)}"
    what = "layer, text and attack combinations checked" if attacked else "layer, head and text combinations certified"
    covered = covering(row for row in rows if row.head is None)
    meaning = "no output moves further, in any layer" if covered is not None else "at least one promise is missing"
    cells = [("Promises that hold", good, what), ("Largest promise", at_most(covered), meaning)]
    if attacked:
        gain = largest(row.gain for row in attacked)
        tight = largest(row.tightness for row in attacked)
        cells.append(("Largest gain seen", at_least(gain), "output change per unit of input change"))
        cells.append(("Closest attack", percent(tight), "of what is promised; 100\u00a0% leaves no room"))
    return cells


def _radius_tiles(certificates: Sequence[CertificateRow]) -> list[Tile]:
    smallest = smallest_radius(certificates)
    if smallest is None:
        return []
    meaning = f"smallest over the layers; keeps every output change within {plain(smallest.tolerance)}"
    return [("Certified radius", smallest.radius_shown, meaning)]


def _search_tiles(rows: Sequence[Row]) -> list[Tile]:
    if not rows:
        return []
    steepest, tight = largest(row.gain for row in rows), largest(row.tightness for row in rows)
    return [
        ("Largest gain proved", at_most(covering(rows)), "no tokens in the ball amplify more, in any layer"),
        ("Largest gain found", at_least(steepest), "by the search for the worst tokens"),
        ("Closest search", percent(tight), "of what the bounds allow"),
    ]


def _constant_tiles(constants: Sequence[Constant]) -> list[Tile]:
    if not constants:
        return []
    lengths = sorted({constant.tokens for constant in constants if constant.tokens is not None})
    highest = at_least(largest(constant.lower for constant in constants))
    cells = [("Largest local constant", highest, "gain of an infinitely small change, over all records")]
    if len(lengths) > 1:
        cells.append(("Lengths", f"{lengths[0]}–{lengths[-1]}", f"tokens, {len(lengths)} lengths"))
    return cells


def example_row(rows: Sequence[Row]) -> Row | None:
    """The row whose ladder is shown: the worst; among equally bad verdicts one of a whole layer comes before a head."""

    def key(row: Row) -> tuple[int, bool, float, float]:
        rank, tightness, promised = concern(row)
        return rank, row.head is None, tightness, promised

    return max((row for row in rows if row.ladder), key=key, default=None)

"""Tables: what is shown in a cell, by which number it is sorted, and nothing about where it is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Generic, TypeVar

from robust_attn.records.parts import Constant
from robust_attn.types import Verdict
from robust_attn.views.numerals import UNKNOWN, at_least, at_most, plain

Item = TypeVar("Item")
ROWS_SHOWN = 500
"""Rows that a table of a report has at most."""
ABSENT = "—"
"""What a cell shows where there is nothing to know."""
LARGEST = 1e300
"""What is larger is sorted as if it were this."""


class Align(StrEnum):
    """On which side of its column a cell stands."""

    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True)
class Column:
    """A column by its title; `meaning` explains it where there is room.

    `code` marks names out of the code; `optional` columns are left out where there is no room for all.
    """

    title: str
    align: Align = Align.RIGHT
    meaning: str = ""
    code: bool = False
    optional: bool = False


@dataclass(frozen=True)
class Cell:
    """What is shown; `value` is the number to sort by, `verdict` is set where the cell is one, `link` leads on."""

    shown: str
    value: float | None = None
    verdict: Verdict | None = None
    link: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of cells under named columns; `left_out` counts the rows that do not fit, `rest` names the file with all.

    `terminal` says whether the table is one of those that a person sees at the end of a run.
    """

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    left_out: int = 0
    rest: str = ""
    terminal: bool = False


@dataclass(frozen=True)
class Field(Generic[Item]):
    """A column, and the cell that a thing has in it."""

    column: Column
    cell: Callable[[Item], Cell]


Fields = Sequence[Field[Item]]
Shown = Callable[[float | None], str]


def counts(title: str, get: Callable[[Item], int | None], *, optional: bool = False) -> Field[Item]:
    """A column of whole numbers; what is missing is a dash."""
    return Field(Column(title, optional=optional), lambda item: count(get(item)))


def numbers(
    title: str, get: Callable[[Item], float | None], shown: Shown = plain, *, optional: bool = False, meaning: str = ""
) -> Field[Item]:
    """A column of numbers that ought to be known."""
    return Field(Column(title, meaning=meaning, optional=optional), lambda item: number(get(item), shown))


def perhaps(
    title: str, get: Callable[[Item], float | None], shown: Shown = plain, *, optional: bool = False
) -> Field[Item]:
    """A column of numbers that need not be there."""
    return Field(Column(title, optional=optional), lambda item: maybe(get(item), shown))


def texts(title: str, get: Callable[[Item], str | None], *, code: bool = False, optional: bool = False) -> Field[Item]:
    """A column of words; `code` for names out of the code."""
    return Field(Column(title, Align.LEFT, code=code, optional=optional), lambda item: text(get(item)))


def verdicts(get: Callable[[Item], Verdict | None], *, optional: bool = False) -> Field[Item]:
    """The column of verdicts."""
    return Field(Column("Verdict", Align.LEFT, optional=optional), lambda item: badge(get(item)))


def cells(title: str, get: Callable[[Item], Cell], *, left: bool = False, optional: bool = False) -> Field[Item]:
    """A column of cells made by themselves."""
    return Field(Column(title, Align.LEFT if left else Align.RIGHT, optional=optional), get)


def constants(title: str, get: Callable[[Item], Constant], *, optional: bool = False) -> Field[Item]:
    """A column of constants, each from both sides."""
    return Field(Column(title, optional=optional), lambda item: between(get(item).lower, get(item).upper))


def table_of(
    name: str,
    title: str,
    fields: Fields[Item],
    items: Sequence[Item],
    *,
    note: str = "",
    terminal: bool = False,
    limit: int = ROWS_SHOWN,
    total: int | None = None,
    rest: str = "records.jsonl",
) -> Table:
    """A row per thing, at most `limit` of them, without optional columns that say nothing.

    `total` is how many things there are, if not all were given; `rest` names the file with all of them.
    """
    rows = [[field.cell(item) for field in fields] for item in items[:limit]]
    left_out = (len(items) if total is None else total) - len(rows)
    columns = [field.column for field in fields]
    return without_empty_columns(Table(name, title, columns, rows, note, left_out, rest, terminal))


def text(shown: str | None) -> Cell:
    """Words, or a dash."""
    return Cell(shown or ABSENT)


def number(value: float | None, shown: Shown = plain) -> Cell:
    """A number that ought to be known: where it is not, the cell says so."""
    return Cell(UNKNOWN) if value is None else Cell(shown(value), min(float(value), LARGEST))


def maybe(value: float | None, shown: Shown = plain) -> Cell:
    """A number that need not be there."""
    return Cell(ABSENT) if value is None else number(value, shown)


def count(value: int | None) -> Cell:
    """A whole number, as it is."""
    return Cell(ABSENT) if value is None else Cell(str(value), float(value))


def between(lower: float | None, upper: float | None) -> Cell:
    """A quantity from both sides: the lower one rounded down, the upper one up."""
    return Cell(ABSENT) if lower is None else Cell(f"{at_least(lower)} to {at_most(upper)}", upper or lower)


def badge(verdict: Verdict | None) -> Cell:
    """A verdict, or a dash."""
    return Cell(ABSENT) if verdict is None else Cell(verdict.value, verdict=verdict)


def without_empty_columns(table: Table) -> Table:
    """The table without those optional columns in which no cell says anything."""
    kept = [
        place
        for place, column in enumerate(table.columns)
        if not column.optional or any(row[place].shown != ABSENT for row in table.rows)
    ]
    return _with_columns(table, kept)


def filled(*tables: Table) -> tuple[Table, ...]:
    """Those that have rows."""
    return tuple(table for table in tables if table.rows)


def narrowed(table: Table) -> Table | None:
    """The table without the last of its optional columns, the least important one; None where there is none."""
    places = [place for place, column in enumerate(table.columns) if column.optional]
    if not places:
        return None
    return _with_columns(table, [place for place in range(len(table.columns)) if place != places[-1]])


def _with_columns(table: Table, kept: Iterable[int]) -> Table:
    places = list(kept)
    rows = [[row[place] for place in places] for row in table.rows]
    return replace(table, columns=[table.columns[place] for place in places], rows=rows)

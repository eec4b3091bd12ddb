"""Tables: what is shown in a cell, by which number it is sorted, and nothing about where it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from robust_attn.types import Verdict


class Align(StrEnum):
    """On which side of its column a cell stands."""

    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True)
class Column:
    """A column by its title; `meaning` explains it where there is room."""

    title: str
    align: Align = Align.RIGHT
    meaning: str = ""


@dataclass(frozen=True)
class Cell:
    """What is shown; `value` is the number to sort by, `verdict` is set where the cell is one."""

    shown: str
    value: float | None = None
    verdict: Verdict | None = None


@dataclass(frozen=True)
class Table:
    """Rows of cells under named columns; `left_out` counts the rows that do not fit.

    `terminal` says whether the table is one of those that a person sees at the end of a run.
    """

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    left_out: int = 0
    terminal: bool = False

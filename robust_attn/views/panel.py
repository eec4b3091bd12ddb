"""Panels: figures as plain data, from which drawings and tables are made alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from robust_attn.views.numerals import at_least, at_most, percent, plain
from robust_attn.views.table import Cell, Column, Table, maybe

Point = tuple[float, float]
LARGEST_LOG10 = 300.0
"""Beyond this a number is no float any more, and is told in words."""


class Role(StrEnum):
    """What a line stands for: it decides how the line looks, and on which side its numbers are rounded.

    SERIES is any quantity, NEAREST the smallest of its kind that was found, PROMISED and REACHED are one of several
    promises and what was reached against it, all four coloured by their group. CERTIFIED is the promise and OBSERVED
    what was seen. BOUND is any other upper bound, LOWER a lower one. TANGENT speaks of infinitely small changes only,
    so it bounds nothing here. TRACE is one of many.
    """

    SERIES = "series"
    NEAREST = "nearest"
    PROMISED = "promised"
    REACHED = "reached"
    CERTIFIED = "certified"
    OBSERVED = "observed"
    BOUND = "bound"
    LOWER = "lower"
    TANGENT = "tangent"
    TRACE = "trace"

    @property
    def rounded_up(self) -> bool:
        """Whether numbers of this kind are limits from above."""
        return self in (Role.NEAREST, Role.PROMISED, Role.CERTIFIED, Role.BOUND)

    @property
    def rounded_down(self) -> bool:
        """Whether they were really reached, or are limits from below."""
        return self in (Role.REACHED, Role.OBSERVED, Role.LOWER, Role.TRACE)


@dataclass(frozen=True)
class Look:
    """How a line is drawn; lines of one `group` share a colour."""

    role: Role = Role.SERIES
    group: str = ""


@dataclass(frozen=True)
class MapCell:
    """A coloured cell of a map; `shown` stands in it, `tip` is its hover text."""

    row: int
    column: int
    value: float
    shown: str
    tip: str


@dataclass(frozen=True)
class Panel:
    """One figure: `lines` by name, each a sequence of (x, y), drawn as `looks` says; `dashed` are drawn as bounds.

    With `categories` the places 0, 1, ... on the axis have these names, and the axis stands upright. `ranges` are
    (x, lowest, highest), `level` is a value to compare with. With `cells` the panel is a map. `caption` explains the
    figure, `description` says what it shows to those who cannot see it, `percent` that values are shares. With `steps`
    a value counts from its place to the next; with `bars` values beside names are bars from zero.
    """

    name: str
    title: str
    x_label: str
    y_label: str
    lines: Mapping[str, tuple[Point, ...]]
    dashed: frozenset[str] = frozenset()
    log_x: bool = True
    log_y: bool = True
    looks: Mapping[str, Look] = field(default_factory=dict)
    categories: tuple[str, ...] = ()
    ranges: tuple[tuple[float, float, float], ...] = ()
    level: float | None = None
    cells: tuple[MapCell, ...] = ()
    percent: bool = False
    steps: bool = False
    bars: bool = False
    caption: str = ""
    description: str = ""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not self.cells and not any(self.lines.values())

    @property
    def words(self) -> str:
        """What the figure shows, in words."""
        return self.description or "; ".join(self._told(name) for name in self.lines)

    def look(self, name: str) -> Look:
        """How the line of that name is drawn."""
        return self.looks.get(name, Look(Role.SERIES, name))

    def value(self, name: str, y: float) -> str:
        """A value of a line as it is printed, rounded on the safe side."""
        if self.percent:
            return percent(y)
        role = self.look(name).role
        return at_most(y) if role.rounded_up else at_least(y) if role.rounded_down else plain(y)

    def place(self, x: float) -> str:
        """A place on the axis as it is told."""
        return self.categories[int(x)] if self.categories else f"{self.x_label} {plain(x)}"

    def rows(self) -> list[tuple[float, list[float | None]]]:
        """The table of the panel: for every x one value per line, None where a line has no point there."""
        places = sorted({x for line in self.lines.values() for x, _ in line})
        values = [dict(line) for line in self.lines.values()]
        return [(x, [line.get(x) for line in values]) for x in places]

    def _told(self, name: str) -> str:
        return f"{name}: " + ", ".join(f"{self.value(name, y)} at {self.place(x)}" for x, y in self.lines[name])


def line(points: Iterable[tuple[float, float | None]]) -> tuple[Point, ...]:
    """Points in order of x, without those that are missing and without repetition."""
    return tuple(sorted({(float(x), float(y)) for x, y in points if y is not None}))


def positive_line(points: Iterable[tuple[float, float | None]]) -> tuple[Point, ...]:
    """Points as they come, without those that are missing and those that a logarithmic axis cannot show."""
    return tuple((float(x), y) for x, y in points if y is not None and y > 0)


def panel_table(panel: Panel) -> Table:
    """The numbers of a figure: one row per place on its axis, one column per line."""
    title = f"{panel.title} ({panel.y_label})" if panel.y_label else panel.title
    columns = [Column(panel.x_label), *(Column(name) for name in panel.lines)]
    rows = [
        [
            Cell(panel.place(x) if panel.categories else plain(x, 4), x),
            *(maybe(y, lambda y: plain(y, 4)) for y in values),
        ]
        for x, values in panel.rows()
    ]
    return Table(f"{panel.name}-numbers", title, columns, rows, terminal=True)

"""Panels: named lines over a common axis, plain numbers, from which both the figure and the printed table are made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Point = tuple[float, float]


@dataclass(frozen=True)
class Panel:
    """One plot: `lines` by name, each a sequence of (x, y); `dashed` are the names of bounds, drawn without markers."""

    name: str
    title: str
    x_label: str
    y_label: str
    lines: Mapping[str, tuple[Point, ...]]
    dashed: frozenset[str] = frozenset()
    log_x: bool = True

    def rows(self) -> list[tuple[float, list[float | None]]]:
        """The table of the panel: for every x one value per line, None where a line has no point there."""
        places = sorted({x for line in self.lines.values() for x, _ in line})
        values = [dict(line) for line in self.lines.values()]
        return [(x, [line.get(x) for line in values]) for x in places]


def line(points: Iterable[tuple[float, float | None]]) -> tuple[Point, ...]:
    """Points in order of x, without those that are missing and without repetition."""
    return tuple(sorted({(float(x), float(y)) for x, y in points if y is not None}))


def bound_lines(records: Sequence[Mapping[str, Any]], x: str) -> dict[str, tuple[Point, ...]]:
    """The constant of every bound that applies against field `x`; those beyond 10^30 are left to the records."""
    names = dict.fromkeys(bound["name"] for record in records for bound in record["bounds"] if bound["applies"])
    return {
        name: line(
            (record[x], 10 ** bound["log10"])
            for record in records
            for bound in record["bounds"]
            if bound["name"] == name and bound["log10"] is not None and abs(bound["log10"]) <= 30
        )
        for name in names
    }

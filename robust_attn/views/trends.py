"""Runs along a swept number: figures, exponents of power laws, and best and worst setting by setting."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from robust_attn.views.fit import slope_with_error
from robust_attn.views.numerals import at_least, percent, plain
from robust_attn.views.panel import Look, Panel, Point, Role
from robust_attn.views.run_line import RunLine, families, swept_in
from robust_attn.views.table import Fields, Table, counts, numbers, perhaps, table_of, texts
from robust_attn.views.words import largest, smallest

FEWEST_POINTS = 3
GROUPS_DRAWN = 8
AXES_DRAWN = 3
VALUES_SHOWN = 24
Quantity = Callable[[RunLine], float | None]
ByValue = tuple[str, str, list[RunLine]]
"""A setting, one of its values, and the runs that have it."""
QUANTITIES: dict[str, Quantity] = {
    "gain": lambda line: line.gain,
    "certified": lambda line: line.certified,
    "lipschitz": lambda line: line.lipschitz,
}
_MEANINGS = {"budget.radius": "the size of the perturbation (budget.radius)", "tokens": "the number of tokens"}


@dataclass(frozen=True)
class Drawn:
    """What is drawn against a swept number."""

    prefix: str
    quantities: dict[str, tuple[Role, Quantity]]
    label: str
    title: str
    caption: str


PROMISES = Drawn(
    "along",
    {"certified": (Role.PROMISED, QUANTITIES["certified"]), "observed": (Role.REACHED, lambda line: line.observed)},
    "change of the output",
    "Certified and observed",
    "Solid: the promise. Dashed: the strongest attack found.",
)
CONSTANTS = Drawn(
    "constant",
    {"lipschitz": (Role.REACHED, QUANTITIES["lipschitz"])},
    "largest local constant",
    "Sensitivity",
    "The largest gain that was measured or found, per unit of input change.",
)
FLIPS = Drawn(
    "flips",
    {"nearest flip": (Role.NEAREST, lambda line: line.flip_radius)},
    "smallest radius that flips a prediction",
    "Nearest flip",
    "The smallest perturbation found that changes a prediction.",
)


def numeric_keys(family: Sequence[RunLine]) -> tuple[str, ...]:
    """Settings that the runs of a family sweep through, and that are positive numbers in all of them."""
    return tuple(key for key in swept_in(family) if all(positive(line.settings[key]) for line in family))


def positive(value: str) -> float | None:
    """The positive finite number that a text spells, or None."""
    try:
        found = float(value)
    except ValueError:
        return None
    return found if 0 < found < math.inf else None


def along_panels(lines: Sequence[RunLine]) -> tuple[Panel, ...]:
    """A panel per sweep, number that it goes through, and kind of quantity, over those runs alone that have it."""
    found: dict[str, Panel] = {}
    for family, drawn in product(families(lines), (PROMISES, CONSTANTS, FLIPS)):
        known = [line for line in family if any((value(line) or 0.0) > 0 for _, value in drawn.quantities.values())]
        for key in numeric_keys(known)[:AXES_DRAWN] if known else ():
            panel = _along(known, key, drawn)
            if panel is not None:
                number = sum(name.startswith(panel.name) for name in found)
                panel = replace(panel, name=f"{panel.name}-{number + 1}") if number else panel
                found[panel.name] = panel
    return tuple(found.values())


def _along(lines: Sequence[RunLine], key: str, drawn: Drawn) -> Panel | None:
    """Runs that differ in the key alone share a line; a run that has no such companion is no line."""
    groups = _groups(lines, key)
    several = {group: some for group, some in groups.items() if len({line.settings[key] for line in some}) > 1}
    if not several:
        return None
    series, looks = {}, {}
    for group, some in list(several.items())[:GROUPS_DRAWN]:
        for quantity, (role, value) in drawn.quantities.items():
            points = _points(some, key, value)
            if points:
                name = group if len(drawn.quantities) == 1 else f"{group}, {quantity}"
                series[name], looks[name] = points, Look(role, group)
    many = f" The first {GROUPS_DRAWN} of {len(several)} groups are drawn." if len(several) > GROUPS_DRAWN else ""
    return Panel(
        f"{drawn.prefix}-{''.join(c if c.isalnum() else '-' for c in key)}",
        f"{drawn.title} against {_MEANINGS.get(key, key)}",
        key,
        drawn.label,
        series,
        looks=looks,
        caption=f"{drawn.caption} Both axes are logarithmic.{many}",
    )


def _groups(lines: Iterable[RunLine], key: str) -> dict[str, list[RunLine]]:
    groups: dict[str, list[RunLine]] = {}
    for line in lines:
        groups.setdefault(line.without(key), []).append(line)
    return groups


def _points(lines: Iterable[RunLine], key: str, value: Quantity) -> tuple[Point, ...]:
    """The largest of the repeated runs at each value of the key, in order."""
    pairs = ((positive(line.settings[key]), value(line)) for line in lines)
    known = sorted((x, y) for x, y in pairs if x is not None and y is not None and y > 0)
    return tuple(dict(known).items())


@dataclass(frozen=True)
class Trend:
    """`quantity` grows like `key` to the power `exponent` within the runs that share `group`."""

    quantity: str
    key: str
    group: str
    points: int
    exponent: float
    error: float


def trend_table(lines: Sequence[RunLine]) -> Table:
    """Exponents of power laws of gain, promise and constant against each swept number."""
    fields: Fields[Trend] = (
        texts("Quantity", lambda trend: trend.quantity),
        texts("Against", lambda trend: trend.key, code=True),
        texts("Runs with", lambda trend: trend.group),
        counts("Points", lambda trend: trend.points),
        numbers("Exponent b", lambda trend: trend.exponent),
        numbers("Standard error", lambda trend: trend.error, lambda value: plain(value, 2)),
    )
    note = "Exponent b of a fitted power law: the quantity grows like the swept number to the power b."
    return table_of("trend-table", "How it grows", fields, list(_trends(lines)), note=note, rest="")


def _trends(lines: Sequence[RunLine]) -> Iterator[Trend]:
    swept = [(family, key) for family in families(lines) for key in numeric_keys(family)]
    for (family, key), (quantity, value) in product(swept, QUANTITIES.items()):
        for group, some in _groups(family, key).items():
            points = [(math.log(x), math.log(y)) for line in some for x, y in _points([line], key, value)]
            if len({x for x, _ in points}) >= FEWEST_POINTS:
                yield Trend(quantity, key, group, len(points), *slope_with_error(points))


def _by_value(family: Sequence[RunLine], key: str) -> list[ByValue]:
    """The runs of a family by their values of a setting: by size where these are numbers, words before them."""
    values = sorted({line.settings[key] for line in family}, key=lambda value: (positive(value) or 0.0, value))
    found = [(key, value, [line for line in family if line.settings[key] == value]) for value in values]
    known = [one for one in found if any({line.gain, line.tightness, line.lipschitz} - {None} for line in one[2])]
    return known if len(values) < len(family) and len(values) <= VALUES_SHOWN and len(known) > 1 else []


def value_table(lines: Sequence[RunLine]) -> Table:
    """Per swept setting and value the weakest and the strongest of the runs that share it.

    Settings with as many values as runs say nothing and are left out, and so are those with nothing to compare.
    """
    groups = [group for family in families(lines) for key in swept_in(family) for group in _by_value(family, key)]
    fields: Fields[ByValue] = (
        texts("Setting", lambda group: group[0], code=True),
        texts("Value", lambda group: group[1]),
        counts("Runs", lambda group: len(group[2])),
        counts("Not finished", lambda group: sum(not line.complete for line in group[2]) or None, optional=True),
        perhaps("Smallest gain", lambda group: smallest(r.gain for r in group[2]), at_least, optional=True),
        perhaps("Largest gain", lambda group: largest(r.gain for r in group[2]), at_least, optional=True),
        perhaps("Loosest promise", lambda group: smallest(r.tightness for r in group[2]), percent, optional=True),
        perhaps("Tightest promise", lambda group: largest(r.tightness for r in group[2]), percent, optional=True),
        perhaps("Smallest constant", lambda group: smallest(r.lipschitz for r in group[2]), at_least, optional=True),
        perhaps("Largest constant", lambda group: largest(r.lipschitz for r in group[2]), at_least, optional=True),
    )
    note = (
        "Over the runs that share a value: the weakest and the strongest attack, the loosest and the tightest promise "
        "(the share of it that an attack reached), the smallest and the largest local constant."
    )
    return table_of("value-table", "Best and worst, setting by setting", fields, groups, note=note, rest="")

"""Records of a kind that the report has no words for, as a table of what they hold."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from robust_attn.report.numerals import finite, plain

LINES_SHOWN = 300
COLUMNS_SHOWN = 14
_CHARACTERS = 80
_NOT_SHOWN = ("schema", "convergence", "text", "motion")


@dataclass(frozen=True)
class Cell:
    """One value as text; `value` is set where it is a number, for sorting."""

    shown: str
    value: float | None = None


@dataclass(frozen=True)
class GenericTable:
    """Records of one task; `shared` holds what all of them have in common, which is not repeated in every line."""

    task: str
    records: int
    shared: dict[str, str]
    columns: tuple[str, ...]
    lines: tuple[tuple[Cell, ...], ...]
    left_out: tuple[str, ...]


def generic_tables(records: Sequence[Mapping[str, Any]]) -> tuple[GenericTable, ...]:
    """One table per task, in the order in which tasks first appear."""
    groups: defaultdict[str, list[dict[str, object]]] = defaultdict(list)
    for record in records:
        groups[str(record.get("task") or "no task named")].append(leaves(record))
    return tuple(_table(task, lines) for task, lines in groups.items())


def leaves(values: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    """Nested fields by dotted name; lists stay whole, what is long or says nothing here is dropped."""
    flat: dict[str, object] = {}
    for key, value in values.items():
        if not prefix and key in _NOT_SHOWN:
            continue
        if isinstance(value, dict) and value:
            flat |= leaves(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def cell_of(value: object) -> Cell:
    """A value in a few characters: numbers to five digits, lists of objects by their length."""
    if value is None or value in ({}, []):
        return Cell("—")
    if isinstance(value, bool):
        return Cell("yes" if value else "no")
    number = finite(value)
    if number is not None:
        return Cell(str(value) if isinstance(value, int) else plain(number, 5), number)
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return Cell(f"{len(value)} entries")
    if isinstance(value, list):
        return Cell(_short(", ".join(cell_of(item).shown for item in value)))
    return Cell("unknown" if isinstance(value, float) else _short(str(value)))


def _short(text: str) -> str:
    return text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 1] + "…"


def _table(task: str, lines: Sequence[Mapping[str, object]]) -> GenericTable:
    names = dict.fromkeys(name for line in lines for name in line if name != "task")
    shared = {name for name in names if len(lines) > 1 and all(line.get(name) == lines[0].get(name) for line in lines)}
    varying = [name for name in names if name not in shared]
    columns = tuple(varying[:COLUMNS_SHOWN])
    return GenericTable(
        task=task,
        records=len(lines),
        shared={name: cell_of(lines[0].get(name)).shown for name in names if name in shared},
        columns=columns,
        lines=tuple(tuple(cell_of(line.get(name)) for name in columns) for line in lines[:LINES_SHOWN]),
        left_out=tuple(varying[COLUMNS_SHOWN:]),
    )

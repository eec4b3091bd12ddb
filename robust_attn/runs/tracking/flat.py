"""Records and settings as a tracker stores them: plain values, names with slashes, finite numbers, no home folder."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from robust_attn.records.flat import flat
from robust_attn.records.home import without_home
from robust_attn.records.kinds import Record
from robust_attn.records.parts import BoundPart
from robust_attn.records.summary import Summary

LONG_FIELDS = ("convergence", "bounds", "text", "motion", "case", "carried")
NOT_MEASURED = frozenset({"schema", "copies", "seed", *(entry.name for entry in fields(Record))})
"""Numbers that say which record it is, not how much: no line over the records is made of them."""
IN_CONFIG = ("schema", "task", "model", "weights", "attack", "budget", "tokens", "samples", "records")
"""What a summary repeats of the settings, and the count of records, whose name the table has."""
_PLAIN = (int, float, bool, type(None))
_SCALARS = (str, int, float, bool)


def plain(value: object) -> Any:
    """Nested dictionaries, lists, text, numbers and None; the rest becomes text, with ~ for the home folder."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, _PLAIN) else without_home(str(value))


def scalars(record: Record) -> dict[str, str | int | float | bool]:
    """Every scalar of a record, `layer`, `observed/gain` and so on, for a table; long fields are elsewhere."""
    values = {name: value for name, value in record.to_json().items() if name not in LONG_FIELDS}
    named = {name: value for name, value in flat(values, separator="/").items() if isinstance(value, _SCALARS)}
    return named | _logs(record)


def metrics(record: Record) -> dict[str, int | float | bool]:
    """What was measured: the numbers that make a line over the records; what is not known is left out."""
    numbers = {name: value for name, value in scalars(record).items() if not isinstance(value, str)}
    return {name: value for name, value in numbers.items() if name not in NOT_MEASURED and not name.endswith("/seed")}


def outcome(summary: Summary) -> dict[str, Any]:
    """How a run ended, without what its config says already."""
    return {name: value for name, value in plain(summary.to_json()).items() if name not in IN_CONFIG}


def _logs(record: Record) -> dict[str, float]:
    """The logarithm of every bound that applies: each is a line over the records."""
    bounds: tuple[BoundPart, ...] = getattr(record, "bounds", ())
    return {
        f"bounds/{bound.name.replace('.', '/')}/log10": bound.log10
        for bound in bounds
        if bound.applies and bound.log10 is not None
    }


def table(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    """Columns and lines of flat records that need not share their keys; gaps are None, every column of one type."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    values = {column: [row.get(column) for row in rows] for column in columns}
    for column, found in values.items():
        if not {type(value) for value in found} <= {int, float, type(None)}:
            values[column] = [None if value is None else str(value) for value in found]
    return columns, [list(line) for line in zip(*values.values(), strict=True)]

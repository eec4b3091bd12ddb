"""Records and settings as a tracker stores them: plain values, names with slashes, finite numbers, no home folder."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from robust_attn.runs.home import without_home

LONG_FIELDS = ("convergence", "bounds", "text", "samples text", "motion")
NOT_MEASURED = ("seed",)
"""Numbers that say which, not how much: no line over the records is made of them."""
_PLAIN = (int, float, bool, type(None))


def plain(value: object) -> Any:
    """Nested dictionaries, lists, text, numbers and None; the rest becomes text, with ~ for the home folder."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, _PLAIN) else without_home(str(value))


def metrics(record: Mapping[str, Any], prefix: str = "") -> dict[str, str | int | float | bool]:
    """The scalars of a record, `observed/gain` and so on; unknown values are left out, long fields are elsewhere."""
    flat: dict[str, str | int | float | bool] = {}
    for key, value in record.items():
        if (not prefix and key in LONG_FIELDS) or key in NOT_MEASURED:
            continue
        if isinstance(value, Mapping):
            flat |= metrics(value, f"{prefix}{key}/")
        elif isinstance(value, str | bool) or (isinstance(value, int | float) and math.isfinite(value)):
            flat[f"{prefix}{key}"] = value
    return flat | _bound_metrics(record) if not prefix else flat


def _bound_metrics(record: Mapping[str, Any]) -> dict[str, str | int | float | bool]:
    """The logarithm of every bound that applies: each is a line over the records."""
    bounds = record.get("bounds")
    known = [bound for bound in bounds if isinstance(bound, Mapping)] if isinstance(bounds, list) else []
    return {
        f"bounds/{str(bound.get('name')).replace('.', '/')}/log10": float(bound["log10"])
        for bound in known
        if bound.get("applies") is not False and isinstance(bound.get("log10"), int | float)
    }


def table(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    """Columns and lines of flat records that need not share their keys; gaps are None, every column of one type."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    numeric = {column for column in columns if all(_is_number(value) for value in _known(rows, column))}
    return columns, [[_table_value(row.get(column), column in numeric) for column in columns] for row in rows]


def _known(rows: Iterable[Mapping[str, Any]], column: str) -> Iterable[Any]:
    return (row[column] for row in rows if row.get(column) is not None)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _table_value(value: Any, numeric: bool) -> Any:
    return value if value is None or numeric else str(value)

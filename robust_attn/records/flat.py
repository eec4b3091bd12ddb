"""Nested values as one level of dotted names: for data frames, trackers and tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robust_attn.records.entry import Json


def flat(values: Mapping[str, Any], *, separator: str = ".", prefix: str = "") -> Json:
    """Every leaf under the path that leads to it, nothing left out.

    A list of things with different names goes by these names, such as `bounds.local.second_order.log10`; other lists
    stay lists, and an empty mapping stays what it is.
    """
    found: Json = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        inner = _by_name(value) if isinstance(value, list | tuple) else value
        if isinstance(inner, Mapping) and inner:
            found |= flat(inner, separator=separator, prefix=f"{name}{separator}")
        else:
            found[name] = inner
    return found


def _by_name(items: list[Any] | tuple[Any, ...]) -> Any:
    """A list of things with different names as a mapping from name to the rest; any other list as it is."""
    names = [item.get("name") if isinstance(item, Mapping) else None for item in items]
    if not items or None in names or len(set(names)) < len(names):
        return items
    return {str(item["name"]): {key: item[key] for key in item if key != "name"} for item in items}

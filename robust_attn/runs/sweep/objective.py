"""The one number of a job that an optimising sweeper asks for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from robust_attn.report.load import load_run
from robust_attn.types import RunState

OBJECTIVES: dict[str, tuple[tuple[str, ...], Callable[[Iterable[float]], float]]] = {
    "gain": (("observed", "gain"), max),
    "tightness": (("tightness",), min),
}


def objectives(records: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """The largest observed gain and the smallest tightness (the loosest certificate); None where no record has one."""
    found = {}
    for name, (path, choose) in OBJECTIVES.items():
        values = [value for record in records if (value := _finite(record, path)) is not None]
        found[name] = choose(values) if values else None
    return found


def objective_of(folder: Path, name: str) -> float | None:
    """One of them for a complete run, else None."""
    run = load_run(folder)
    return objectives(run.records)[name] if run.status == RunState.COMPLETE else None


def _finite(record: Mapping[str, Any], path: tuple[str, ...]) -> float | None:
    value: Any = record
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None

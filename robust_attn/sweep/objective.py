"""The one number of a job that an optimising sweeper asks for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from robust_attn.report.load import load_run

OBJECTIVES: dict[str, tuple[tuple[str, ...], Callable[[Iterable[float]], float]]] = {
    "gain": (("observed", "gain"), max),
    "tightness": (("tightness",), min),
}


def objective_of(folder: Path, name: str) -> float | None:
    """The largest observed gain or the smallest tightness (the loosest certificate) of a complete run, else None."""
    run = load_run(folder)
    path, choose = OBJECTIVES[name]
    values = [value for record in run.records if (value := _finite(record, path)) is not None]
    return choose(values) if values and run.status == "complete" else None


def _finite(record: dict[str, Any], path: tuple[str, ...]) -> float | None:
    value: Any = record
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None

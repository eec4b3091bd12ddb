"""What the records of a campaign say together, and the table of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from robust_attn.soundness.case import KINDS, case_from
from robust_attn.types import Verdict

Record = Mapping[str, Any]
COUNTS = ("cases", "comparisons", "exact", "violations", "unknown_cases", "seconds")


def findings(records: Sequence[Record]) -> dict[str, Any]:
    """How many cases and comparisons, what was drawn, the closest approach to each bound, and what is unknown and why.

    A record that carries the findings of an earlier campaign counts as all of its cases; one made before cases were
    counted by kind, or judged exactly, carries no such counts.
    """
    parts = [record["carried"] if "carried" in record else _of_one(record) for record in records]
    closest: dict[str, dict[str, Any]] = {}
    unknown: Counter[str] = Counter()
    drawn = {kind: Counter[str]() for kind in KINDS}
    for part in parts:
        for kind, counts in part.get("drawn", {}).items():
            drawn[kind].update(counts)
        unknown.update(part["unknown"])
        for name, found in part["closest"].items():
            if name not in closest or _size(found) > _size(closest[name]):
                closest[name] = found
    sums = {name: sum(part.get(name, 0) for part in parts) for name in COUNTS}
    return {
        **sums,
        "seconds": round(sums["seconds"], 3),
        "cases_per_minute": round(60 * sums["cases"] / sums["seconds"], 1) if sums["seconds"] > 0 else None,
        "last_seed": max(part["last_seed"] for part in parts),
        "unknown": dict(sorted(unknown.items())),
        "drawn": {kind: dict(sorted(counts.items())) for kind, counts in drawn.items()},
        "closest": dict(sorted(closest.items())),
    }


def closest_table(found: Mapping[str, Any]) -> Table:
    """The closest approach to every bound: observed over allowed, 1 would be exact and more a violation."""
    title = (
        f"{found['cases']} cases, {found['comparisons']} comparisons with a bound, {found['exact']} of them in exact "
        f"arithmetic, {found['violations']} violations, "
        f"{found['unknown_cases']} cases unknown; {found['cases_per_minute']} cases a minute, "
        f"last seed {found['last_seed']}"
    )
    table = Table(title=title, caption=drawn_text(found["drawn"]), caption_justify="left")
    for column in ("bound", "closest approach", "seed"):
        table.add_column(column, justify="left" if column == "bound" else "right")
    for name, closest in found["closest"].items():
        value = closest["approach"]
        table.add_row(name, "above zero" if value is None else f"{value:.9f}", str(closest["seed"]))
    return table


def drawn_text(drawn: Mapping[str, Mapping[str, int]]) -> str:
    """How many cases of each kind were drawn, a line for every kind."""
    return "\n".join(
        f"{kind}: " + ", ".join(f"{name} {count}" for name, count in counts.items())
        for kind, counts in drawn.items()
        if counts
    )


def _of_one(record: Record) -> dict[str, Any]:
    """The findings of one case."""
    seed = record["seed"]
    return {
        "cases": 1,
        "comparisons": record["comparisons"],
        "exact": record.get("exact", 0),
        "violations": len(record["violated"]),
        "unknown_cases": int(record["verdict"] == Verdict.UNKNOWN),
        "seconds": record["seconds"],
        "last_seed": seed,
        "drawn": {kind: {name: 1} for kind, name in case_from(record["case"]).kinds.items()},
        "unknown": Counter(reason.split(":")[0] for reason in record["unknown"]),
        "closest": {name: {"approach": value, "seed": seed} for name, value in record["closest"].items()},
    }


def _size(found: Mapping[str, Any]) -> float:
    """None stands for what is above a bound of zero."""
    return math.inf if found["approach"] is None else float(found["approach"])

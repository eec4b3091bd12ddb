"""What an attack through a model amounts to, for the summary of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from robust_attn.through.records import LAYERS, PREDICTION

Record = Mapping[str, Any]


def flip_findings(records: Sequence[Record]) -> dict[str, Any]:
    """How many predictions flipped, the radii of these flips, and how near the layers came to their certificates."""
    predictions = [record for record in records if record.get("task") == PREDICTION]
    radii = {name: _known(record[name] for record in predictions) for name in ("flip_radius", "flip_radius_moving")}
    tightness = _known(record["tightness"] for record in records if record.get("task") == LAYERS)
    return {
        "samples": len(predictions),
        "flipped_within_budget": sum(record["prediction"]["flipped"] for record in predictions),
        "flipped_at_some_radius": len(radii["flip_radius"]),
        **{f"smallest_{name}": min(values, default=None) for name, values in radii.items()},
        **{f"median_{name}": median(values) if values else None for name, values in radii.items()},
        "largest_tightness": max(tightness, default=None),
    }


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]

"""What an interrupted run of predictions had finished, taken over by the one that continues it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from robust_attn.records.kinds import LayerRecord, PredictionRecord, Record, of_kind
from robust_attn.records.store import Run, load_run
from robust_attn.types import UserError
from robust_attn.work import Asked

GROUPS = ("task", "model", "data", "attack", "budget", "certificate")
SHARED = ("layers", "tokens", "seed", "dtype")
"""Settings that every record depends on; how many samples are read may differ."""


def carried_samples(folder: Path, settings: Asked, layers: int) -> dict[int, tuple[Record, ...]]:
    """The records of every sample that the run in `folder` finished: its prediction and that many layers.

    A UserError where that run had other settings, as far as both say.
    """
    run = load_run(folder)
    differing = _differing(run, settings)
    if differing:
        raise UserError(f"{folder} was run with other settings ({', '.join(differing)}): nothing of it can be kept.")
    found: dict[int, tuple[Record, ...]] = {}
    for record in of_kind(run.records, PredictionRecord):
        passed = [each for each in of_kind(run.records, LayerRecord) if each.sample == record.sample]
        if len(passed) == layers:
            found[record.sample] = (record, *passed)
    return found


def _differing(run: Run, settings: Asked) -> list[str]:
    now: dict[str, Any] = {group: _plain(asdict(getattr(settings, group))) for group in GROUPS}
    now |= {name: _plain(getattr(settings, name)) for name in SHARED}
    now["task"].pop("resume", None)
    return [path for name, value in now.items() for path in _changed(name, run.config.get(name), value)]


def _changed(path: str, before: Any, now: Any) -> list[str]:
    """Paths of what both say and say differently; a run from before a setting existed says nothing about it."""
    if isinstance(now, Mapping):
        known = before if isinstance(before, Mapping) else {}
        return [each for key in now if key in known for each in _changed(f"{path}.{key}", known[key], now[key])]
    return [] if before is None or before == now else [path]


def _plain(value: Any) -> Any:
    """Tuples as the lists that YAML has."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value

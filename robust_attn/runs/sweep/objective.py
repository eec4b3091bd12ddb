"""The one number of a job that an optimising sweeper asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from robust_attn.records.kinds import BallRecord, Check, Record, SplittingRecord
from robust_attn.records.store import load_run
from robust_attn.types import RunState

Objective = Callable[[Sequence[Record]], float | None]


def largest_gain(records: Sequence[Record]) -> float | None:
    """The largest observed gain; None where no record has one."""
    return _best(max, (record.observed.gain for record in records if isinstance(record, Check | SplittingRecord)))


def smallest_tightness(records: Sequence[Record]) -> float | None:
    """The tightness of the loosest certificate; None where no record has one."""
    return _best(min, (record.tightness for record in records if isinstance(record, Check | BallRecord)))


OBJECTIVES: Mapping[str, Objective] = {"gain": largest_gain, "tightness": smallest_tightness}


def objectives(records: Sequence[Record]) -> dict[str, float | None]:
    """All of them."""
    return {name: objective(records) for name, objective in OBJECTIVES.items()}


def objective_of(folder: Path, name: str) -> float | None:
    """One of them for a complete run, else None."""
    run = load_run(folder)
    return OBJECTIVES[name](run.records) if run.status == RunState.COMPLETE else None


def _best(choose: Callable[[Iterable[float]], float], values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return choose(known) if known else None

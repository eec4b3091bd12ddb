"""Run folders as they are found on disk: complete, under way, interrupted in the middle of a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robust_attn.records.entry import Json, NotARecordError
from robust_attn.records.kinds import Record, record_from
from robust_attn.records.legacy import upgraded
from robust_attn.types import UserError

RECORDS = "records.jsonl"
SUMMARY = "summary.json"
ENVIRONMENT = "environment.json"
INPUTS = "inputs.json"
"""The tokens of every sample by number of tokens; it grows by a length at a time."""
UNFINISHED = "unfinished"
_CONFIG, _OVERRIDES = Path(".hydra") / "config.yaml", Path(".hydra") / "overrides.yaml"


@dataclass(frozen=True)
class Run:
    """One run folder; `summary` is None while the run is under way or when it was killed.

    `damaged_lines` counts the lines of records.jsonl that hold no record. `inputs` are the tokens of the samples by
    number of tokens, None where the run did not write them.
    """

    folder: Path
    records: tuple[Record, ...]
    damaged_lines: int
    summary: Json | None
    environment: Json | None
    inputs: Json | None
    overrides: tuple[str, ...]
    config: Json

    @property
    def status(self) -> str:
        """complete, failed or interrupted as the run itself says, unfinished when it says nothing."""
        return str((self.summary or {}).get("status") or UNFINISHED)

    @property
    def task(self) -> str | None:
        """The task's name, as the summary or the configuration says."""
        return _task(self.summary, self.config)


def line_of(record: Record) -> str:
    """A record as a line of records.jsonl."""
    return json.dumps(record.to_json(), allow_nan=False) + "\n"


def load_run(folder: Path) -> Run:
    """The run in `folder`; whatever is missing or cut is left out and counted, never guessed."""
    if not folder.is_dir():
        raise UserError(f"there is no run folder at {folder}; expected a folder with {RECORDS} or {SUMMARY}.")
    config, overrides = _yaml(folder / _CONFIG), _yaml(folder / _OVERRIDES)
    config = config if isinstance(config, dict) else {}
    summary = _json_object(folder / SUMMARY)
    records, damaged = read_records(folder / RECORDS, _task(summary, config))
    return Run(
        folder=folder,
        records=records,
        damaged_lines=damaged,
        summary=summary,
        environment=_json_object(folder / ENVIRONMENT),
        inputs=_json_object(folder / INPUTS),
        overrides=tuple(str(item) for item in overrides) if isinstance(overrides, list) else (),
        config=config,
    )


def find_runs(folder: Path) -> tuple[Run, ...]:
    """Every run at or below `folder`, in the order of their paths or settings (so that 2 comes before 10)."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}; expected a folder that holds runs.")
    found = {path.parent for name in (RECORDS, SUMMARY) for path in folder.rglob(name) if path.is_file()}
    # The wandb folder of a run keeps copies of its files, which are not runs of their own.
    own = [path for path in found if "wandb" not in path.relative_to(folder).parts]
    return tuple(sorted(map(load_run, own), key=_order))


def read_records(path: Path, task: str | None) -> tuple[tuple[Record, ...], int]:
    """Readable records, and the number of lines that are not: a killed run leaves its last line cut.

    `task` is that of the run, which records of schema 1 do not repeat.
    """
    if not path.is_file():
        return (), 0
    records: list[Record] = []
    damaged = 0
    with path.open("rb") as lines:
        for line in lines:
            if not line.strip():
                continue
            try:
                values = _parsed(line)
                records.append(record_from(upgraded(values, task) if isinstance(values, dict) else values))
            except NotARecordError:
                damaged += 1
    return tuple(records), damaged


def _task(summary: Mapping[str, Any] | None, config: Mapping[str, Any]) -> str | None:
    chosen = config.get("task")
    named = (summary or {}).get("task") or (chosen.get("name") if isinstance(chosen, Mapping) else chosen)
    return str(named) if named else None


def _order(run: Run) -> tuple[Any, ...]:
    """By path; in a sweep, whose folders are named by a hash, by what was typed for each job."""
    typed = run.overrides if (run.folder.parent / "multirun.yaml").is_file() else ()
    return tuple(map(_natural_order, (run.folder.parent.parts, typed, run.folder.parts)))


def _natural_order(parts: Iterable[str]) -> tuple[tuple[int, str], ...]:
    """By the numbers that names hold, as a person counts: 2-move comes before 10-move."""
    pieces = (piece for part in parts for piece in re.split(r"(\d+)", f"{part}/") if piece)
    return tuple((int(piece), "") if piece.isdecimal() else (-1, piece) for piece in pieces)


def _parsed(text: bytes) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # ValueError covers bad UTF-8 and bad JSON alike
        return None


def _json_object(path: Path) -> Json | None:
    content = _parsed(path.read_bytes()) if path.is_file() else None
    return content if isinstance(content, dict) else None


def _yaml(path: Path) -> object:
    if not path.is_file():
        return None
    import yaml  # type: ignore[import-untyped,unused-ignore]

    try:
        return yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, UnicodeDecodeError):
        return None

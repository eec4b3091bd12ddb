"""Run folders as they are found on disk: complete, under way, interrupted in the middle of a line."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robust_attn.runs.folder import ENVIRONMENT, INPUTS, RECORDS, SUMMARY
from robust_attn.runs.home import without_home
from robust_attn.types import UserError


@dataclass(frozen=True)
class Run:
    """One run folder; `summary` is None while the run is under way or when it was killed.

    `inputs` are the tokens of the samples by number of tokens, None where the run did not write them.
    """

    folder: Path
    records: tuple[dict[str, Any], ...]
    damaged_lines: int
    summary: dict[str, Any] | None
    environment: dict[str, Any] | None
    inputs: dict[str, Any] | None
    overrides: list[str]
    config: dict[str, Any]

    @property
    def status(self) -> str:
        """complete, failed or interrupted as the run itself says, unfinished when it says nothing."""
        return str((self.summary or {}).get("status") or "unfinished")


def load_run(folder: Path) -> Run:
    """The run in `folder`; whatever is missing or cut is left out and counted, never guessed."""
    if not folder.is_dir():
        raise UserError(f"there is no run folder at {folder}; expected a folder with {RECORDS} or {SUMMARY}.")
    records, damaged = _records(folder / RECORDS)
    overrides = without_home(_yaml(folder / ".hydra" / "overrides.yaml"))
    config = without_home(_yaml(folder / ".hydra" / "config.yaml"))
    return Run(
        folder=folder,
        records=records,
        damaged_lines=damaged,
        summary=_json_object(folder / SUMMARY),
        environment=_json_object(folder / ENVIRONMENT),
        inputs=_json_object(folder / INPUTS),
        overrides=[str(item) for item in overrides] if isinstance(overrides, list) else [],
        config=config if isinstance(config, dict) else {},
    )


def find_runs(folder: Path) -> tuple[Run, ...]:
    """Every run at or below `folder`, in the order of their paths or settings (so that 2 comes before 10)."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}; expected a folder that holds runs.")
    found = {path.parent for name in (RECORDS, SUMMARY) for path in folder.rglob(name) if path.is_file()}
    return tuple(sorted((load_run(path) for path in found if not _inside_tracker(path, folder)), key=_order))


def _order(run: Run) -> tuple[Any, ...]:
    """By path; in a sweep, whose folders are named by a hash, by what was typed for each job."""
    typed = run.overrides if (run.folder.parent / "multirun.yaml").is_file() else []
    return tuple(map(_natural_order, (run.folder.parent.parts, typed, run.folder.parts)))


def _natural_order(parts: Iterable[str]) -> tuple[tuple[int, str], ...]:
    """By the numbers that names hold, as a person counts: 2-move comes before 10-move."""
    pieces = (piece for part in parts for piece in re.split(r"(\d+)", f"{part}/") if piece)
    return tuple((int(piece), "") if piece.isdecimal() else (-1, piece) for piece in pieces)


def _inside_tracker(path: Path, top: Path) -> bool:
    """The wandb folder of a run keeps copies of its files, which are not runs of their own."""
    return "wandb" in path.relative_to(top).parts


def _records(path: Path) -> tuple[tuple[dict[str, Any], ...], int]:
    """Readable records, and the number of lines that are not: a killed run leaves its last line cut."""
    if not path.is_file():
        return (), 0
    records: list[dict[str, Any]] = []
    damaged = 0
    with path.open("rb") as lines:
        for line in lines:
            if not line.strip():
                continue
            record = _parsed(line)
            if isinstance(record, dict):
                records.append(record)
            else:
                damaged += 1
    return tuple(records), damaged


def _parsed(text: bytes) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # ValueError covers bad UTF-8 and bad JSON alike
        return None


def _json_object(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    content = _parsed(path.read_bytes())
    return content if isinstance(content, dict) else None


def _yaml(path: Path) -> object:
    if not path.is_file():
        return None
    import yaml  # type: ignore[import-untyped,unused-ignore]

    try:
        return yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, UnicodeDecodeError):
        return None

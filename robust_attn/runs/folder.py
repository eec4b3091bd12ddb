"""What a run leaves on disk: records as soon as they are known, then a summary; nothing written is ever rewritten."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from robust_attn.records.kinds import Record
from robust_attn.records.store import INPUTS, RECORDS, line_of
from robust_attn.runs.atomic import write_text
from robust_attn.types import UserError


def new_folder(path: Path) -> Path:
    """The folder, made here and now; where that name is taken, `path-2`, `path-3` and so on.

    No two callers get the same one, because the operating system makes a folder once.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        place = path if number == 1 else path.with_name(f"{path.name}-{number}")
        with contextlib.suppress(FileExistsError):
            place.mkdir()
            return place
    raise AssertionError("numbers do not end")


@dataclass(frozen=True)
class RunFolder:
    """A folder that belongs to one run. A run is complete when its summary says so, not before."""

    path: Path

    @classmethod
    def claim(cls, path: Path) -> RunFolder:
        """Take an empty place for a run; refuse one in which another run already wrote."""
        try:
            path.mkdir(parents=True, exist_ok=True)
            (path / RECORDS).touch(exist_ok=False)
        except FileExistsError as error:
            raise UserError(f"{path} already holds a run; choose another folder with hydra.run.dir=...") from error
        except OSError as error:
            raise UserError(f"The run folder {path} cannot be written: {error.strerror or error}.") from error
        return cls(path)

    def append(self, record: Record) -> None:
        """Add one record as a line of its own, flushed to the operating system before this returns."""
        with (self.path / RECORDS).open("a", encoding="utf-8") as file:
            file.write(line_of(record))
            file.flush()

    def add_inputs(self, tokens: int, spelled: list[list[str]] | None) -> None:
        """Add the samples of a length, each as its tokens in words; None where the inputs are not text."""
        path = self.path / INPUTS
        known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        self.write(INPUTS, known | {str(tokens): spelled})

    def write(self, name: str, values: dict[str, Any]) -> None:
        """Write a JSON file whole or not at all."""
        write_text(self.path / name, json.dumps(values, indent=2, allow_nan=False) + "\n")

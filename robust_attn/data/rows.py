"""Rows of one's own data: a text each, with the number of its row and perhaps a label. No torch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from robust_attn.data.tables import Line, lines_of
from robust_attn.types import UserError

WHOLE = re.compile(r"[+-]?\d{1,18}")
Label = int | str


@dataclass(frozen=True)
class Row:
    """One row: its number in the file, from 0 and without the header, its text, and its label if one was asked for.

    A label that is written as a whole number is one.
    """

    index: int
    text: str
    label: Label | None = None


@dataclass(frozen=True)
class Origin:
    """Where a sample comes from: its number, that of its row, its label, and how many tokens were cut off its end."""

    sample: int
    row: int | None = None
    label: Label | None = None
    cut: int | None = None


def rows_of(path: str | Path, text: str, label: str | None = None) -> Iterator[Row]:
    """Every row of a CSV, TSV, JSONL or Parquet file or of a saved data set, read as it goes.

    `text` and `label` are names of columns. What cannot be read is a UserError that says where it stands.
    """
    place = Path(path).expanduser()
    columns = [text] if label is None else [text, label]
    for index, line in enumerate(lines_of(place, columns)):
        found = None if label is None else _label(place, line, label)
        yield Row(index, _text(place, line, text), found)


def taken(rows: Iterable[Row], samples: int, *, called: str, first: int = 0) -> list[Row]:
    """Exactly `samples` rows, from row `first` on, in their order; `called` is what they are rows of."""
    if samples < 1:
        raise UserError(f"samples must be at least 1, got {samples}")
    found = list(islice(rows, first, first + samples))
    if len(found) < samples:
        where = f" from row {first} on" if first else ""
        raise UserError(f"{called} has {len(found)} rows{where}, but {samples} samples were asked for")
    return found


def class_of(label: Label | None, names: Mapping[int, str] | None) -> Label | None:
    """The number of the class that a label names, by the model's names of its classes; other labels as they are.

    Capital letters make no difference, unless the model has two names that differ by them alone.
    """
    if not isinstance(label, str) or not names:
        return label
    exact = [number for number, name in names.items() if name == label]
    alike = [number for number, name in names.items() if name.casefold() == label.casefold()]
    found = exact or alike
    return int(found[0]) if len(found) == 1 else label


def _text(path: Path, line: Line, column: str) -> str:
    text = line.cells[column]
    if not isinstance(text, str):
        raise UserError(f"{path}, {line.place}: column {column!r} must hold text, got {text!r:.40}")
    if not text.strip():
        raise UserError(f"{path}, {line.place}: column {column!r} is empty")
    return text


def _label(path: Path, line: Line, column: str) -> Label:
    label = line.cells[column]
    if isinstance(label, float) and label.is_integer():
        return int(label)
    if isinstance(label, int):
        return int(label)
    if isinstance(label, str) and label.strip():
        return int(label) if WHOLE.fullmatch(label.strip()) else label.strip()
    raise UserError(
        f"{path}, {line.place}: column {column!r} must hold a label, a whole number or a name, got {label!r:.40}"
    )

"""Tables in files, line by line: CSV and TSV, JSONL, Parquet, and folders that `datasets` saved; nothing is run."""

from __future__ import annotations

import csv
import importlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robust_attn.models.quiet import reason
from robust_attn.types import UserError


@dataclass(frozen=True)
class Line:
    """The cells of one row by column, and where it stands, such as `line 7`."""

    place: str
    cells: Mapping[str, Any]


def lines_of(path: Path, columns: Sequence[str]) -> Iterator[Line]:
    """Every row of the table at `path`, with at least the columns; read as it goes, whatever the size of the file."""
    if path.is_dir():
        return _saved(path, columns)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise UserError(
            f"{path} is not a table that can be read: expected a file that ends in {', '.join(READERS)}, or a folder "
            "written by save_to_disk of datasets"
        )
    if not path.is_file():
        raise UserError(f"there is no file {path} to take rows from")
    return reader(path, columns)


def _separated(path: Path, columns: Sequence[str], delimiter: str) -> Iterator[Line]:
    """Names in the first line; a field in quotes may go on over several lines, blank lines are no rows."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            header = next(reader, [])
            _expect_columns(path, header, columns)
            previous = reader.line_num
            for cells in _parsed(path, reader):
                place, previous = f"line {previous + 1}", reader.line_num
                if not cells:
                    continue
                if len(cells) != len(header):
                    raise UserError(f"{path}, {place}: expected {len(header)} cells as in the header, got {len(cells)}")
                yield Line(place, dict(zip(header, cells, strict=True)))
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: {error}") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from error


def _parsed(path: Path, reader: Any) -> Iterator[list[str]]:
    try:
        yield from reader
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: cannot be read: {error}") from error


def _comma(path: Path, columns: Sequence[str]) -> Iterator[Line]:
    return _separated(path, columns, ",")


def _tab(path: Path, columns: Sequence[str]) -> Iterator[Line]:
    return _separated(path, columns, "\t")


def _json_lines(path: Path, columns: Sequence[str]) -> Iterator[Line]:
    """One JSON object per line; blank lines are no rows."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    cells = _object(path, number, line)
                    _expect_columns(path, list(cells), columns, f", line {number},")
                    yield Line(f"line {number}", cells)
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: {error}") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from error


def _object(path: Path, number: int, line: str) -> Mapping[str, Any]:
    try:
        cells = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}, line {number}: is not JSON: {reason(error)}") from error
    if not isinstance(cells, dict):
        raise UserError(
            f"{path}, line {number}: expected a JSON object with the columns as names, got {line.strip():.40}"
        )
    return cells


def _parquet(path: Path, columns: Sequence[str]) -> Iterator[Line]:
    library = _optional("pyarrow.parquet", "a Parquet file", "pyarrow", "rows")
    try:
        with library.ParquetFile(path) as file:
            _expect_columns(path, file.schema_arrow.names, columns)
            found = (cells for batch in file.iter_batches(columns=list(columns)) for cells in batch.to_pylist())
            for number, cells in enumerate(found):
                yield Line(f"row {number}", cells)
    except (UserError, GeneratorExit):
        raise
    except Exception as error:
        raise UserError(f"{path} cannot be read as Parquet: {reason(error)}") from error


def _saved(path: Path, columns: Sequence[str]) -> Iterator[Line]:
    """A data set as `save_to_disk` writes it; one with several splits is a folder with a data set for each."""
    splits = _splits(path)
    if splits:
        named = ", ".join(f"data.path={path / split}" for split in splits)
        raise UserError(f"{path} holds a data set with several splits; name one of them: {named}")
    if not (path / "dataset_info.json").is_file():
        raise UserError(f"{path} is a folder, but not one that save_to_disk of datasets wrote: no dataset_info.json")
    library = _optional("datasets", "a saved data set", "datasets", "hub")
    try:
        found = library.load_from_disk(str(path))
        _expect_columns(path, found.column_names, columns)
        for number, cells in enumerate(found.select_columns(list(dict.fromkeys(columns)))):
            yield Line(f"row {number}", cells)
    except (UserError, GeneratorExit):
        raise
    except Exception as error:
        raise UserError(f"the data set in {path} cannot be read: {reason(error)}") from error


def _splits(path: Path) -> list[str]:
    try:
        found = json.loads((path / "dataset_dict.json").read_text(encoding="utf-8"))["splits"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [str(split) for split in found]


def _optional(module: str, what: str, package: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(f"{what} needs the package {package}: pip install 'robust_attn[{extra}]'") from error


def _expect_columns(path: Path, found: Sequence[str], wanted: Sequence[str], place: str = "") -> None:
    if not found:
        raise UserError(f"{path}{place} is empty: expected rows with the columns {', '.join(wanted)}")
    for column in wanted:
        if column not in found:
            raise UserError(f"{path}{place} has no column {column!r}; its columns are {', '.join(map(str, found))}")
        if found.count(column) > 1:
            raise UserError(f"{path} has {found.count(column)} columns called {column!r}, so nobody can tell which")


READERS: Mapping[str, Callable[[Path, Sequence[str]], Iterator[Line]]] = {
    ".csv": _comma,
    ".tsv": _tab,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".parquet": _parquet,
}
"""By the end of a file's name."""

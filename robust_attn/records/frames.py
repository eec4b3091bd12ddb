"""Finished and unfinished runs as flat rows: one per record, for pandas, polars or a plain loop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml  # type: ignore[import-untyped,unused-ignore]

from robust_attn.records.flat import flat
from robust_attn.records.store import find_runs

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore]


def load_runs(folder: str | Path) -> pandas.DataFrame:
    """Every record at or below `folder` as a row of a pandas frame; see `run_rows` for the columns.

    A sweep under way, a killed run and a line cut in the middle are no obstacle: what can be read is there, and
    `status` says how each run ended. An empty folder gives an empty frame.
    """
    try:
        import pandas
    except ImportError as error:
        raise ImportError("load_runs needs pandas: pip install 'robust_attn[frames]'.") from error
    return pandas.DataFrame(run_rows(folder))


def run_rows(folder: str | Path) -> list[dict[str, Any]]:
    """One flat dictionary per record at or below `folder`, in the order of runs and of their lines.

    `run` is the run folder relative to `folder`, `status` is complete, failed, interrupted or unfinished, and
    `override.KEY` are the settings that were typed. The record follows with dotted names, such as `observed.gain`;
    a list of named things goes by their names, such as `bounds.local.second_order.log10`; other lists stay lists.
    Every row has every column, None where its record says nothing.
    """
    top, rows = Path(folder), []
    for run in find_runs(top):
        typed = (item.partition("=") for item in run.overrides if "=" in item)
        overrides = {f"override.{key.lstrip('+~')}": _value(text) for key, _, text in typed}
        about = {"run": run.folder.relative_to(top).as_posix(), "status": run.status, **overrides}
        rows += [about | flat(record.to_json()) for record in run.records]
    columns = dict.fromkeys(column for row in rows for column in row)
    return [{column: row.get(column) for column in columns} for row in rows]


def _value(text: str) -> Any:
    """The number, word or list that was typed; text that is none of these stays as it is."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text

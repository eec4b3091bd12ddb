"""Which sample a record speaks of, as columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from robust_attn.records.kinds import Record
from robust_attn.views.table import Field, Fields, counts, texts

Item = TypeVar("Item")
Kind = TypeVar("Kind", bound=Record)


def sample_number(
    records: Sequence[Record], get: Callable[[Item], Record], title: str, *, optional: bool = False
) -> Field[Item]:
    """The number of the sample that a thing is about; where samples are rows of data, that of the row."""
    if all(record.row is None for record in records):
        return counts(title.format("sample").capitalize(), lambda item: get(item).sample, optional=optional)
    return counts(title.format("row").capitalize(), lambda item: get(item).row, optional=optional)


def sample_fields(records: Sequence[Kind]) -> Fields[Kind]:
    """The same of records; where samples are rows also the label, and how many tokens were cut off."""
    return (
        sample_number(records, lambda record: record, "{}"),
        texts("Label", _label, optional=True),
        counts("Tokens cut", lambda record: record.cut or None, optional=True),
    )


def _label(record: Record) -> str | None:
    return None if record.label is None else str(record.label)

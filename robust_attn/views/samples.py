"""Which sample a record speaks of, as columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from robust_attn.records.kinds import Record
from robust_attn.views.table import Fields, counts, texts

Item = TypeVar("Item")


def sample_fields(
    records: Sequence[Record], get: Callable[[Item], Record], title: str = "{}", *, optional: bool = False
) -> Fields[Item]:
    """The number of the sample; where samples are rows of data that of the row, its label and what was cut off it."""
    if all(record.row is None for record in records):
        return (counts(title.format("sample").capitalize(), lambda item: get(item).sample, optional=optional),)
    return (
        counts(title.format("row").capitalize(), lambda item: get(item).row, optional=optional),
        texts("Label", lambda item: _label(get(item)), optional=True),
        counts("Tokens cut", lambda item: get(item).cut or None, optional=True),
    )


def _label(record: Record) -> str | None:
    return None if record.label is None else str(record.label)

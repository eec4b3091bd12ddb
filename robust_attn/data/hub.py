"""Text of a Hugging Face data set; needs the optional package `datasets` and a hub in reach."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from itertools import islice
from typing import Any

from robust_attn.models.hub import hub_answers
from robust_attn.models.quiet import reason
from robust_attn.types import UserError

ROWS = 5000
"""Rows read at most: enough text for any run, and no download of a whole corpus."""


def hub_text(dataset: str, split: str, column: str) -> str:
    """One column of the first ROWS rows of a split, joined; read as a stream, without code from the hub."""
    try:
        library: Any = importlib.import_module("datasets")
    except ImportError as error:
        raise UserError("data=hub needs the package datasets: pip install 'robust_attn[hub]'") from error
    if not hub_answers(f"api/datasets/{dataset}"):
        raise UserError(
            f"the Hugging Face hub does not answer for data set {dataset}; if you are offline, use data=prose or "
            "data=text (pip install 'robust_attn[hub]' is already done)"
        )
    try:
        rows = islice(library.load_dataset(dataset, split=split, streaming=True), ROWS)
        return _joined(rows, dataset, column)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"data set {dataset}, split {split}, cannot be read: {reason(error)}") from error


def _joined(rows: Iterable[dict[str, Any]], dataset: str, column: str) -> str:
    pieces = []
    for row in rows:
        if not isinstance(row.get(column), str):
            raise UserError(f"data set {dataset} has no text column {column!r}; its columns are {', '.join(row)}")
        pieces.append(row[column])
    text = "\n".join(pieces)
    if not text.strip():
        raise UserError(f"column {column!r} of data set {dataset} has no text")
    return text

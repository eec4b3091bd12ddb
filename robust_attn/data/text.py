"""Text files, and windows of exactly the length asked for in a stream of tokens."""

from __future__ import annotations

from collections.abc import Iterator
from glob import has_magic
from pathlib import Path

from robust_attn.data.rows import Row
from robust_attn.types import UserError


def read_text(path: Path) -> str:
    """The text of a UTF-8 file that has some."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: {error}") from error
    except IsADirectoryError as error:
        raise UserError(f"{path} is a folder: take one of its files, or all by a pattern ('{path}/*.txt')") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from error
    if not text.strip():
        raise UserError(f"{path} has no text")
    return text


def files_of(pattern: str) -> Iterator[Row] | None:
    """The files that a pattern matches, in alphabetical order, as rows without labels; None where it is no pattern."""
    whole = Path(pattern).expanduser()
    if not has_magic(pattern) or whole.exists():
        return None
    found = sorted(file for file in Path(whole.anchor).glob(str(whole.relative_to(whole.anchor))) if file.is_file())
    if not found:
        raise UserError(f"no file matches {pattern}")
    return (Row(index, read_text(file)) for index, file in enumerate(found))


def spans(length: int, tokens: int, samples: int) -> list[slice]:
    """`samples` stretches of exactly `tokens` places, none overlapping, spread evenly over a stream of that length."""
    if tokens < 1 or samples < 1:
        raise UserError(f"tokens and samples must be at least 1, got {tokens} and {samples}")
    needed = tokens * samples
    if length < needed:
        raise UserError(
            f"the text has {length} tokens, but {samples} samples of {tokens} tokens need {needed}: "
            "ask for fewer or shorter samples, or give more text"
        )
    starts = [sample * (length // samples) for sample in range(samples)]
    return [slice(start, start + tokens) for start in starts]

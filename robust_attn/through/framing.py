"""The tokens that begin and end a text, as a tokenizer puts them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

PROBE = "a"
"""Some text: the frame does not depend on it."""


@dataclass(frozen=True)
class Frame:
    """Ids before and after those of the text itself."""

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    @property
    def added(self) -> int:
        """How many there are."""
        return len(self.before) + len(self.after)


def frame_of(tokenizer: Any | None) -> Frame:
    """What the tokenizer puts around a text of its own accord; nothing where there is no tokenizer."""
    if tokenizer is None:
        return Frame()
    bare, framed = (list(tokenizer.encode(PROBE, add_special_tokens=special)) for special in (False, True))
    starts = range(len(framed) - len(bare) + 1)
    start = next((start for start in starts if framed[start : start + len(bare)] == bare), None)
    if start is None:
        raise ValueError(f"the tokenizer reads {PROBE!r} as {bare} alone and as {framed} framed: it changes the text")
    return Frame(tuple(framed[:start]), tuple(framed[start + len(bare) :]))

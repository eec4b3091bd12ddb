"""Texts as token ids: what a tokenizer puts around a text, and texts of equal length together."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import Any

from robust_attn.types import UserError


@dataclass(frozen=True)
class Ends:
    """Ids of the special tokens before and after a text. A text alone is of token type 0, as where none is given."""

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """How many they are."""
        return len(self.before) + len(self.after)

    def room(self, most: int) -> int:
        """How many tokens of a text fit between them where there are at most so many in all."""
        if most <= self.count:
            raise UserError(
                f"tokens must be at least {self.count + 1}, because the tokenizer adds {self.count} special tokens "
                f"(data.special_tokens=false leaves them out), got {most}"
            )
        return most - self.count

    def around(self, ids: Sequence[int], most: int | None = None) -> list[int]:
        """The ids between them; where that is more than `most`, the end of the text is cut and they stay."""
        kept = ids if most is None else ids[: self.room(most)]
        return [*self.before, *kept, *self.after]


def ends_of(tokenizer: Any, text: str) -> Ends:
    """What the tokenizer adds to the text by itself, as it did when the model was trained; nothing without one."""
    if tokenizer is None:
        return Ends()
    bare = list(tokenizer.encode(text, add_special_tokens=False, verbose=False))
    whole = list(tokenizer.encode(text, add_special_tokens=True, verbose=False))
    for start in range(len(whole) - len(bare) + 1):
        if whole[start : start + len(bare)] == bare:
            return Ends(tuple(whole[:start]), tuple(whole[start + len(bare) :]))
    raise UserError(
        "with special tokens the tokenizer reads the text itself differently: use data.special_tokens=false"
    )


def equal_lengths(sequences: Sequence[Sized]) -> dict[int, list[int]]:
    """Places of the sequences by their length, lengths in the order in which they come first."""
    found: dict[int, list[int]] = {}
    for place, sequence in enumerate(sequences):
        found.setdefault(len(sequence), []).append(place)
    return found

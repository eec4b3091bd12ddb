"""Records of two runs about the same thing: paired by row or sample, by layer and head, and by what else it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from robust_attn.records.kinds import Record
from robust_attn.records.quantities import place_of
from robust_attn.types import UserError

PLACE = ("layer", "head")
FURTHER = (
    *("attack", "tokens", "copies", "budget.radius", "radius", "scaled_to", "mask", "study", "configuration"),
    *("series", "mass", "special_mass", "repeats", "seed"),
)
"""What tells records of one place apart, where a run has several: as few of these as do, in this order."""
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Pair:
    """A record of each run; `place` says where both were measured, `number` is their row or sample."""

    place: str
    number: int
    first: Record
    second: Record

    @property
    def same_input(self) -> bool:
        """As far as the records tell: as many tokens, and the same text where both hold it."""
        texts = {getattr(record, "text", None) for record in (self.first, self.second)} - {None}
        return self.first.tokens == self.second.tokens and len(texts) < 2


@dataclass(frozen=True)
class Pairing:
    """The pairs, in the order of the first run, and the places that only one of the runs has."""

    pairs: tuple[Pair, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]


def pairing(first: Sequence[Record], second: Sequence[Record]) -> Pairing:
    """Records of one kind, row or sample, layer and head belong together; by rows where both runs have rows."""
    kinds = dict.fromkeys(record.kind for record in (*first, *second))
    parts = [
        _pairing([r for r in first if r.kind == kind], [r for r in second if r.kind == kind], several=len(kinds) > 1)
        for kind in kinds
    ]
    return Pairing(
        tuple(pair for part in parts for pair in part.pairs),
        tuple(place for part in parts for place in part.only_first),
        tuple(place for part in parts for place in part.only_second),
    )


def _pairing(first: Sequence[Record], second: Sequence[Record], *, several: bool) -> Pairing:
    number = "row" if all(record.row is not None for record in (*first, *second)) else "sample"
    names = _telling((number, *PLACE), first, second)
    further = names[1 + len(PLACE) :]

    def words(record: Record) -> str:
        parts = [place_of(record), *(f"{name} {_value(record, name)}" for name in further)]
        return ", ".join([*([record.kind] if several else []), *parts])

    left, right = ({_key(record, names): record for record in records} for records in (first, second))
    return Pairing(
        tuple(Pair(words(left[key]), key[0], left[key], right[key]) for key in left if key in right),
        tuple(words(record) for key, record in left.items() if key not in right),
        tuple(words(record) for key, record in right.items() if key not in left),
    )


def _telling(names: tuple[str, ...], first: Sequence[Record], second: Sequence[Record]) -> tuple[str, ...]:
    """The names with as many further ones as leave no two records of a run alike."""
    for name in FURTHER:
        if _alike(first, names) + _alike(second, names) > _alike(first, (*names, name)) + _alike(
            second, (*names, name)
        ):
            names = (*names, name)
    if _alike(first, names) or _alike(second, names):
        example = (*first, *second)[0]
        raise UserError(f"nothing tells apart the records of one place, such as {example.kind} at {place_of(example)}.")
    return names


def _alike(records: Sequence[Record], names: tuple[str, ...]) -> int:
    """How many records have a key that an earlier one has."""
    return len(records) - len({_key(record, names) for record in records})


def _key(record: Record, names: tuple[str, ...]) -> Key:
    return tuple(_value(record, name) for name in names)


def _value(record: Record, name: str) -> Any:
    part: Any = record
    for each in name.split("."):
        part = getattr(part, each, None)
    return part

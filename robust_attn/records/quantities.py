"""The numbers of a record that conditions and comparisons speak of, each by its name and by its ways."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from robust_attn.records.kinds import BallRecord, CertifyRecord, Check, ConstantRecord, PredictionRecord, Record

Numbers = Mapping[str, float | None]
"""A number by each way; None where it was asked for and is not known."""
CERTIFICATES = ("all", "one_word", "smoothing", "product", "interval")
FLIPS = ("move", "one_word", "split", "typed")
WHOLE = ""
"""The way of a quantity that has no ways."""


@dataclass(frozen=True)
class Quantity:
    """One quantity: how each kind of record that can have it tells its numbers, by which of `ways`.

    `usual` is the number that is meant where no way is named. `unproved` stands for a number that is not known, where
    not to know it is not to have proved anything; None where nothing stands for it.
    """

    name: str
    readers: Mapping[type[Record], Callable[[Any], Numbers]]
    ways: tuple[str, ...] = ()
    usual: Callable[[Numbers], float | None] = lambda numbers: numbers.get(WHOLE)
    unproved: float | None = None

    def possible(self, kinds: Iterable[type[Record]]) -> bool:
        """Whether records of one of these kinds can have it."""
        return any(issubclass(kind, tuple(self.readers)) for kind in kinds)

    def numbers(self, record: Record) -> Numbers:
        """What a record says; nothing where its kind does not have the quantity, or nobody asked for it."""
        reader = next((read for kind, read in self.readers.items() if isinstance(record, kind)), None)
        return {} if reader is None else reader(record)


def _asked_radius(record: CertifyRecord) -> Numbers:
    asked = record.certified_radius
    return {} if asked is None else {WHOLE: float("inf") if asked.unbounded else asked.radius}


def _proved_radii(record: PredictionRecord) -> Numbers:
    """A prediction without a certificate has a certified radius that nobody proved: it is judged all the same."""
    return dict.fromkeys(CERTIFICATES) | dict(record.certified_radius)


def _changes(record: Check) -> Numbers:
    seen = {"observed": record.observed.output_change} if record.attacked else {}
    return seen | {"certified": record.certified.output_change}


def _tightness(record: Check | BallRecord) -> Numbers:
    nothing = isinstance(record, Check) and not record.attacked
    return {} if nothing else {WHOLE: record.tightness}


def _smallest(numbers: Numbers) -> float | None:
    return min((number for number in numbers.values() if number is not None), default=None)


QUANTITIES: Mapping[str, Quantity] = {
    quantity.name: quantity
    for quantity in (
        Quantity(
            "certified_radius",
            {PredictionRecord: _proved_radii, CertifyRecord: _asked_radius},
            ways=CERTIFICATES,
            usual=lambda numbers: numbers.get("all", numbers.get(WHOLE)),
            unproved=0.0,
        ),
        Quantity(
            "flip_radius",
            {PredictionRecord: lambda record: record.flip_radius},
            ways=FLIPS,
            usual=_smallest,
        ),
        Quantity(
            "output_change",
            {Check: _changes},
            ways=("certified", "observed"),
            usual=lambda numbers: numbers.get("certified"),
            unproved=float("inf"),
        ),
        Quantity("tightness", {Check: _tightness, BallRecord: _tightness}),
    )
}
"""What a condition can speak of, beside verdicts."""

_COMPARED = (
    *QUANTITIES.values(),
    Quantity("margin", {PredictionRecord: lambda record: {WHOLE: record.margin}}),
    Quantity("gain", {Check: lambda record: {WHOLE: record.observed.gain} if record.attacked else {}}),
    Quantity(
        "lipschitz",
        {
            kind: lambda record: {"lower": record.lipschitz.lower, "upper": record.lipschitz.upper}
            for kind in (Check, ConstantRecord, BallRecord)
        },
    ),
)


def compared_numbers(record: Record) -> Mapping[str, float]:
    """Every known number by which records of two runs can be compared, as `flip_radius.move` or `tightness`."""
    return {
        f"{quantity.name}.{way}" if way else quantity.name: number
        for quantity in _COMPARED
        for way, number in quantity.numbers(record).items()
        if number is not None and math.isfinite(number)
    }


def place_of(record: Record) -> str:
    """Where a record was measured: its layer and head where it has one, and its row in the data, or its sample."""
    places = (("layer", record.layer), ("head", record.head))
    return ", ".join([*(f"{name} {place}" for name, place in places if place is not None), record.named])

"""Radii of predictions: which of them speak of the same thing, which is the smallest, in which order they are told."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence

from robust_attn.records.kinds import PredictionRecord
from robust_attn.views.words import largest, smallest

ONE_WORD, SMOOTHING = "one_word", "smoothing"
BASELINES = ("interval", "product")
UNCOVERED = ("split", "typed")
"""Ways that do more than move tokens: no certificate of a prediction speaks of them."""
CSV_FILE = "predictions.csv"
Radii = Callable[[PredictionRecord], Mapping[str, float | None]]


def flips(record: PredictionRecord) -> Mapping[str, float | None]:
    """By every way to attack."""
    return record.flip_radius


def certificates(record: PredictionRecord) -> Mapping[str, float | None]:
    """By every way to prove."""
    return record.certified_radius


def ways(records: Iterable[PredictionRecord], radii: Radii) -> list[str]:
    """All of them, in the order in which they first appear."""
    return list(dict.fromkeys(way for record in records for way in radii(record)))


def smallest_radii(records: Iterable[PredictionRecord], radii: Radii) -> dict[str, float]:
    """The smallest known radius by each way, in the order in which ways first appear."""
    every = list(records)
    found = {way: smallest(radii(record).get(way) for record in every) for way in ways(every, radii)}
    return {way: radius for way, radius in found.items() if radius is not None}


def proved_radius(record: PredictionRecord) -> float | None:
    """The largest radius within which no motion of any tokens changes the prediction of this very classifier.

    What is proved about one word, or about the smoothed classifier, is neither.
    """
    return largest(radius for name, radius in record.certified_radius.items() if name not in (ONE_WORD, SMOOTHING))


def least_certain_first(records: Iterable[PredictionRecord]) -> list[PredictionRecord]:
    """By what is proved, then by what was found."""

    def order(record: PredictionRecord) -> tuple[float, float]:
        flip = record.smallest_flip
        return proved_radius(record) or 0.0, float("inf") if flip is None else flip

    return sorted(records, key=order)


def predictions_csv(records: Sequence[PredictionRecord]) -> str:
    """A line per prediction, in the order given, with every digit; what is not known is left empty.

    Texts stay out: programs that show such files would run those that look like formulas.
    """
    found, proved = ways(records, flips), ways(records, certificates)
    heads = [*(f"flip_radius.{way}" for way in found), *(f"certified_radius.{name}" for name in proved)]
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    about = ("sample", "row", "label", "predicted", "margin", "tokens")
    lines.writerow([*about, *heads, "failure_probability", "verdict"])
    for record in records:
        radii = [*map(record.flip_radius.get, found), *map(record.certified_radius.get, proved)]
        values = [getattr(record, name) for name in about]
        lines.writerow([*values, *radii, record.failure_probability, record.verdict])
    return text.getvalue()

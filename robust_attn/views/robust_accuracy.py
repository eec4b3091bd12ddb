"""Accuracy against the size of a perturbation: clean, under attack, and certified, over the samples of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from robust_attn.records.kinds import PredictionRecord
from robust_attn.views.numerals import at_most, percent, plain
from robust_attn.views.panel import Look, Panel, Role
from robust_attn.views.prediction_radii import ONE_WORD, SMOOTHING, certificates, flips, smallest_radii
from robust_attn.views.table import Cell, Column, Table
from robust_attn.views.words import counted, norm_words

FAR_LEFT = 3.0
"""A baseline is not drawn where it ends this many times before anything else falls."""
LARGEST_TABLE = 9
"""Radii of which the table tells; the figure has all of them."""
_NAMES = {
    "all": "certified",
    ONE_WORD: "certified",
    "interval": "certified by intervals",
    "product": "certified by products",
}
_BASELINES = frozenset((_NAMES["interval"], _NAMES["product"]))
_WAYS = {"move": "moving", "split": "splitting", ONE_WORD: "one word"}
Reach = Callable[[PredictionRecord], float]
"""How far a prediction is known to stay, or has not been seen to change; below zero where it is wrong to begin with."""


@dataclass(frozen=True)
class Curve:
    """The share of samples whose reach exceeds a radius."""

    name: str
    look: Look
    reaches: tuple[float, ...]

    @property
    def radii(self) -> tuple[float, ...]:
        """Where it falls."""
        return tuple(reach for reach in self.reaches if 0 < reach < math.inf)

    def at(self, radius: float) -> float:
        """The share of samples that reach further; exactly at a radius this promises less, never more."""
        return sum(reach > radius for reach in self.reaches) / len(self.reaches)


@dataclass(frozen=True)
class Accuracy:
    """The curves of one class of perturbations; `against` says what counts as right."""

    title: str
    against: str
    curves: tuple[Curve, ...]
    norm: str
    notes: str

    @property
    def radii(self) -> tuple[float, ...]:
        """Where a curve falls."""
        return tuple(sorted({radius for curve in self.curves for radius in curve.radii}))


def reference(records: Sequence[PredictionRecord]) -> tuple[str, Callable[[PredictionRecord], int | str | None]]:
    """What counts as right: the labels where every sample has one of a class, else what the model itself says."""
    if all(isinstance(record.label, int) for record in records):
        return "the labels of the data", lambda record: record.label
    some = any(record.label is not None for record in records)
    said = "the model's own predictions" + (", because not every sample has a label" if some else "")
    return said, lambda record: record.predicted


def accuracies(records: Sequence[PredictionRecord]) -> tuple[Accuracy, ...]:
    """Of moving all tokens, and of moving one word, as far as anything is known about either."""
    parts = (_all_tokens(records), _one_word(records)) if records else ()
    return tuple(part for part in parts if part is not None and part.radii)


def accuracy_panel(accuracy: Accuracy) -> Panel:
    """The picture of this field: shares of samples over the radius, as steps."""
    radii = accuracy.radii
    places = (radii[0] / 2, *radii, radii[-1] * 2)
    lines = {curve.name: tuple((radius, curve.at(radius)) for radius in places) for curve in accuracy.curves}
    total = counted(len(accuracy.curves[0].reaches), "sample")
    proved = any(curve.look.role is Role.CERTIFIED for curve in accuracy.curves)
    between = " Between the curve of attacks and the certified one nothing is known."
    told = "; ".join(
        f"{curve.name}: {', '.join(f'{percent(curve.at(r))} beyond {plain(r)}' for r in told_radii(radii))}"
        for curve in accuracy.curves
    )
    return Panel(
        f"accuracy-{accuracy.title.replace(' ', '-')}",
        f"Accuracy against radius, {accuracy.title}",
        f"radius ({accuracy.norm})",
        "share of samples",
        lines,
        looks={curve.name: curve.look for curve in accuracy.curves},
        log_y=False,
        percent=True,
        steps=True,
        caption=f"Over {total}, against {accuracy.against}.{between if proved else ''} A sample that no attack flipped "
        f"counts as right at every radius.{accuracy.notes}",
        description=told,
    )


def accuracy_table(accuracy: Accuracy) -> Table:
    """The same in numbers, at a few round radii."""
    columns = [Column("Radius"), *(Column(curve.name) for curve in accuracy.curves)]
    rows = [
        [Cell(plain(radius), radius), *(Cell(percent(curve.at(radius)), curve.at(radius)) for curve in accuracy.curves)]
        for radius in (0.0, *told_radii(accuracy.radii))
    ]
    note = f"Of the samples the share that is still right at each radius ({accuracy.norm}), against {accuracy.against}."
    note += accuracy.notes
    title = f"Accuracy against radius, {accuracy.title}"
    return Table(f"accuracy-{accuracy.title.replace(' ', '-')}-table", title, columns, rows, note, terminal=True)


def told_radii(radii: Sequence[float]) -> tuple[float, ...]:
    """Round radii over the range of the given ones, every power of ten and its threefold, or fewer."""
    low, high = math.floor(math.log10(radii[0])), math.ceil(math.log10(radii[-1]))
    fine = [float(f"{digit}e{power}") for power in range(low, high + 1) for digit in (1, 3)]
    inside = [radius for radius in fine if radii[0] / 2.9 < radius < radii[-1] * 2.9]
    return tuple(inside[:: math.ceil(len(inside) / LARGEST_TABLE)])


def _all_tokens(records: Sequence[PredictionRecord]) -> Accuracy | None:
    ways = [way for way in smallest_radii(records, flips) if way != ONE_WORD]
    proofs = [name for name in smallest_radii(records, certificates) if name != ONE_WORD]
    proofs.sort(key=lambda name: (name == SMOOTHING, name != "all"))
    return _accuracy("any tokens", records, ways, proofs) if ways or proofs else None


def _one_word(records: Sequence[PredictionRecord]) -> Accuracy | None:
    ways = [way for way in smallest_radii(records, flips) if way == ONE_WORD]
    proofs = [name for name in smallest_radii(records, certificates) if name == ONE_WORD]
    return _accuracy("one word", records, ways, proofs) if ways or proofs else None


def _accuracy(title: str, records: Sequence[PredictionRecord], ways: Sequence[str], proofs: Sequence[str]) -> Accuracy:
    against, right = reference(records)
    correct = [record.predicted == right(record) for record in records]

    def curve(name: str, look: Look, reach: Reach) -> Curve:
        pairs = zip(records, correct, strict=True)
        return Curve(name, look, tuple(reach(record) if fine else -1.0 for record, fine in pairs))

    def smoothed(record: PredictionRecord) -> float:
        label = record.smoothed.label if record.smoothed else record.predicted
        return (record.certified_radius.get(SMOOTHING) or 0.0) if label == right(record) else -1.0

    curves = [curve("clean", Look(Role.SERIES, "clean"), lambda _: math.inf)]
    for way in ways:
        name = f"under attack ({_WAYS.get(way, way)})"
        look = Look(Role.OBSERVED) if way in ("move", ONE_WORD) else Look(Role.SERIES, way)
        curves.append(curve(name, look, _unflipped(way)))
    for proof in proofs:
        if proof == SMOOTHING:
            reaches = tuple(map(smoothed, records))
            curves.append(Curve("certified, smoothed classifier", Look(Role.SERIES, SMOOTHING), reaches))
            continue
        look = Look(Role.CERTIFIED) if proof in ("all", ONE_WORD) else Look(Role.SERIES, proof)
        curves.append(curve(_NAMES.get(proof, f"certified ({proof})"), look, _proved(proof)))
    about = _about_smoothing(records) if SMOOTHING in proofs else ""
    drawn, notes = _without_far_left(curves)
    return Accuracy(title, against, drawn, norm_words(records[0].budget), about + notes)


def _without_far_left(curves: Sequence[Curve]) -> tuple[tuple[Curve, ...], str]:
    """Baselines that end long before anything else falls would take the axis for themselves: they are told instead."""
    ends = {curve.name: max(curve.radii, default=0.0) for curve in curves if curve.name in _BASELINES}
    start = min((radius for curve in curves if curve.name not in ends for radius in curve.radii), default=0.0)
    left = {name: end for name, end in ends.items() if end * FAR_LEFT < start}
    told = "".join(f" The curve “{name}” ends at {at_most(end)}, left of the axis." for name, end in left.items())
    return tuple(curve for curve in curves if curve.name not in left), told


def _unflipped(way: str) -> Reach:
    def reach(record: PredictionRecord) -> float:
        radius = record.flip_radius.get(way)
        return math.inf if radius is None else radius

    return reach


def _proved(name: str) -> Reach:
    return lambda record: record.certified_radius.get(name) or 0.0


def _about_smoothing(records: Sequence[PredictionRecord]) -> str:
    sigmas = {record.smoothed.sigma for record in records if record.smoothed}
    noise = f" (noise {plain(sigmas.pop())})" if len(sigmas) == 1 else ""
    return f" Smoothing{noise} speaks of another classifier: this one averaged over random noise."

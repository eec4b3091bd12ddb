"""What splitting tokens gains over moving them: both attacks on the same layer, sample, length and budget."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from robust_attn.records.kinds import AttackRecord, of_kind
from robust_attn.views.numerals import plain
from robust_attn.views.panel import Look, Panel, Role
from robust_attn.views.run_line import REPEATED, RunLine, settings_label
from robust_attn.views.table import Fields, Table, counts, numbers, table_of, texts

MOVE, SPLIT = "move", "mass_split"
GROUPS_DRAWN = 8
Place = tuple[tuple[tuple[str, str], ...], tuple[object, ...]]


@dataclass(frozen=True)
class SplitGain:
    """The gain of a split attack over that of moving, per layer: over `pairs` of records that differ in that alone."""

    group: str
    layer: int
    pairs: int
    smallest: float
    typical: float
    """Geometric mean."""
    largest: float


def split_gains(lines: Sequence[RunLine]) -> tuple[SplitGain, ...]:
    """Per group of settings and layer the ratio of W2 gains, of all pairs that there are."""
    moved: dict[Place, float] = {}
    for place, gain, _ in _gains(lines, MOVE):
        moved[place] = max(gain, moved.get(place, 0.0))
    ratios: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    for place, gain, group in _gains(lines, SPLIT):
        if place in moved:
            ratios[group].append(gain / moved[place])
    return tuple(_summary(group, layer, ratios[group, layer]) for group, layer in sorted(ratios))


def _gains(lines: Sequence[RunLine], attack: str) -> Iterator[tuple[Place, float, tuple[str, int]]]:
    """Of every record of an attack: what it shares with its counterpart, its gain, and where it is counted."""
    for line in lines:
        shared = {key: value for key, value in line.settings.items() if not _of_attack(key)}
        own = {key: value for key, value in line.settings.items() if _of_attack(key) and key != "attack"}
        group = settings_label(shared | own, ("tokens", *REPEATED)) or "all runs"
        for record in of_kind(line.run.records, AttackRecord):
            gain = record.observed.w2_gain or 0.0
            if record.attack == attack and record.layer is not None and gain > 0:
                yield (tuple(shared.items()), _place(record)), gain, (group, record.layer)


def _of_attack(key: str) -> bool:
    return key == "attack" or key.startswith("attack.")


def _place(record: AttackRecord) -> tuple[object, ...]:
    budget = (record.budget.kind, record.budget.radius)
    return (record.model, record.weights, record.layer, record.head, record.sample, record.tokens, *budget)


def _summary(group: str, layer: int, ratios: Sequence[float]) -> SplitGain:
    typical = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
    return SplitGain(group, layer, len(ratios), min(ratios), typical, max(ratios))


def split_table(gains: Sequence[SplitGain]) -> Table:
    """A line per group and layer."""
    fields: Fields[SplitGain] = (
        texts("Runs with", lambda gain: gain.group),
        counts("Layer", lambda gain: gain.layer),
        counts("Pairs", lambda gain: gain.pairs),
        numbers("Smallest", lambda gain: gain.smallest, lambda value: plain(value, 5)),
        numbers("Geometric mean", lambda gain: gain.typical, lambda value: plain(value, 5)),
        numbers("Largest", lambda gain: gain.largest, lambda value: plain(value, 5)),
    )
    note = (
        "W2 gain of the attack that may split tokens over that of the attack that may only move them, on the same "
        "layer, sample, length and budget. Above 1, splitting pays."
    )
    return table_of("split-table", "What splitting gains over moving", fields, gains, note=note, rest="")


def split_panel(gains: Sequence[SplitGain]) -> Panel | None:
    """The ratio per layer, one line per group of settings, with the range over its pairs."""
    groups = list(dict.fromkeys(gain.group for gain in gains))[:GROUPS_DRAWN]
    if not groups:
        return None
    drawn = [gain for gain in gains if gain.group in groups]
    return Panel(
        "splitting",
        "What splitting gains over moving",
        "layer",
        "gain of splitting / gain of moving",
        {group: tuple((float(g.layer), g.typical) for g in drawn if g.group == group) for group in groups},
        looks={group: Look(Role.SERIES, group) for group in groups},
        log_x=False,
        log_y=False,
        ranges=tuple((float(gain.layer), gain.smallest, gain.largest) for gain in drawn),
        level=1.0,
        caption="Points are geometric means over pairs of records that differ in the attack alone, bars the range. "
        "Above 1, splitting pays.",
        description="; ".join(
            f"{gain.group}, layer {gain.layer}: {plain(gain.typical, 4)} times ({plain(gain.smallest, 4)} to "
            f"{plain(gain.largest, 4)}, {gain.pairs} pairs)"
            for gain in drawn
        ),
    )

"""What splitting tokens gains over moving them: both attacks on the same layer, sample, length and budget."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from robust_attn.report.chart import INK, OBSERVED, OTHER, SERIES, Chart, Tips, canvas, house_style, literal
from robust_attn.report.numerals import integer_at, number_at, plain
from robust_attn.report.trends import REPEATED

MOVE, SPLIT = "move", "mass_split"
GROUPS_DRAWN = 8
FINEST = 0.05
"""The axis of ratios reaches at least this far around one."""
Settings = tuple[tuple[str, str], ...]
Place = tuple[Settings, str]


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


@dataclass(frozen=True)
class Examined:
    """A run for this comparison: the settings in which it differs from others, and its records."""

    settings: Mapping[str, str]
    records: Sequence[dict[str, Any]]


def split_gains(runs: Sequence[Examined]) -> tuple[SplitGain, ...]:
    """Per group of settings and layer the ratio of W2 gains, of all pairs that there are."""
    moved: dict[Place, float] = {}
    for place, gain, _ in _gains(runs, MOVE):
        moved[place] = max(gain, moved.get(place, 0.0))
    ratios: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    for place, gain, (group, layer) in _gains(runs, SPLIT):
        if place in moved:
            ratios[group, layer].append(gain / moved[place])
    return tuple(_summary(group, layer, ratios[group, layer]) for group, layer in sorted(ratios))


def _gains(runs: Sequence[Examined], attack: str) -> Iterator[tuple[Place, float, tuple[str, int]]]:
    """Of every record of an attack: what it shares with its counterpart, its gain, and where it is counted."""
    for run in runs:
        shared = {key: value for key, value in run.settings.items() if not _of_attack(key)}
        own = {key: value for key, value in run.settings.items() if _of_attack(key) and key != "attack"}
        named = {key: value for key, value in shared.items() if key not in ("tokens", *REPEATED)} | own
        group = ", ".join(f"{key}={value}" for key, value in named.items()) or "all runs"
        for record in run.records:
            gain, layer = number_at(record, "observed.w2_gain"), integer_at(record, "layer")
            if record.get("attack") == attack and gain is not None and gain > 0 and layer is not None:
                yield (tuple(shared.items()), _place(record)), gain, (group, layer)


def _of_attack(key: str) -> bool:
    return key == "attack" or key.startswith("attack.")


def _place(record: Mapping[str, Any]) -> str:
    budget = record.get("budget")
    size = (budget.get("kind"), budget.get("radius")) if isinstance(budget, dict) else None
    return repr((*(record.get(key) for key in ("model", "weights", "layer", "head", "sample", "tokens")), size))


def _summary(group: str, layer: int, ratios: Sequence[float]) -> SplitGain:
    typical = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
    return SplitGain(group, layer, len(ratios), min(ratios), typical, max(ratios))


def split_chart(gains: Sequence[SplitGain]) -> Chart | None:
    """The ratio per layer, one line per group of settings, with the range over its pairs."""
    if not gains:
        return None
    groups: defaultdict[str, list[SplitGain]] = defaultdict(list)
    for gain in gains:
        groups[gain.group].append(gain)
    with house_style():
        figure, axes = canvas(height=3.4)
        tips = Tips()
        axes.axhline(1.0, color=OTHER, lw=1.4)
        colours = (OBSERVED, *(colour for colour in SERIES if colour != OBSERVED))
        for colour, (group, line) in zip(colours, list(groups.items())[:GROUPS_DRAWN], strict=False):
            layers = [gain.layer for gain in line]
            axes.vlines(layers, [one.smallest for one in line], [one.largest for one in line], color=colour, alpha=0.4)
            axes.plot(layers, [one.typical for one in line], color=colour, lw=1.7, label=literal(group))
            for one in line:
                tip = tips.mark(f"{group}, layer {one.layer}: {_words(one)}")
                axes.plot([one.layer], [one.typical], color=colour, marker="o", ms=5, gid=tip)
        axes.set_xticks(sorted({gain.layer for gain in gains}))
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, 1 - FINEST), max(high, 1 + FINEST))  # rounding must not look like a difference
        axes.set(xlabel="layer", ylabel="gain of splitting / gain of moving")
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), labelcolor=INK, fontsize=8)
    caption = (
        "W2 gain of the attack that may split tokens over that of the attack that may only move them, with everything "
        "else equal; points are geometric means, bars the range. Above 1, splitting pays."
    )
    words = "; ".join(f"{gain.group}, layer {gain.layer}: {_words(gain)}" for gain in gains)
    return Chart("splitting", "What splitting gains over moving", caption, words, figure, tips)


def _words(gain: SplitGain) -> str:
    return f"{plain(gain.typical, 4)} times ({plain(gain.smallest, 4)} to {plain(gain.largest, 4)}, {gain.pairs} pairs)"

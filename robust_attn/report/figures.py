"""The figures of one run, drawn from its records: any number of them, with gaps, with or without an attack."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from robust_attn.report.chart import (
    CERTIFIED,
    INK,
    LOCAL,
    OBSERVED,
    OTHER,
    PAPER,
    SHARP,
    Chart,
    Tips,
    canvas,
    house_style,
    literal,
    log_axis,
)
from robust_attn.report.ladder import Rung
from robust_attn.report.numerals import at_least, at_most, percent, power_of_ten, tick
from robust_attn.report.rows import Row, by_layer, largest, place_of
from robust_attn.report.words import counted

if TYPE_CHECKING:
    import matplotlib.axes

DECADES_ABOVE = 8.0


@dataclass(frozen=True)
class Wording:
    """How figures speak about a kind of rows; `prefix` keeps the names of their files apart."""

    prefix: str
    axis: str
    title: str
    promised: str
    reached: str
    worst: str
    curve: str


CHECKS = Wording(
    prefix="",
    axis="change of the output",
    title="Observed against certified, layer by layer",
    promised="The thick blue line is the promise: no allowed perturbation moves the output further.",
    reached="The dashed orange line is how far the attack really got.",
    worst="Every point belongs to the worst sample of its layer: the one where the attack came closest to its promise.",
    curve="attack",
)
CERTIFICATES = replace(
    CHECKS,
    title="Certified, layer by layer",
    worst="Every point belongs to the sample of its layer with the largest promise.",
)
SEARCHES = Wording(
    prefix="search-",
    axis="gain (output change per unit of input change)",
    title="Gain found against gain proved, layer by layer",
    promised="The thick blue line is proved: no tokens in the ball amplify a change more.",
    reached="The dashed orange line is the steepest configuration that the search found.",
    worst="",
    curve="search",
)
_FAMILY_COLOURS = {"paper": PAPER, "sharp": SHARP, "local": LOCAL, "ball": LOCAL}
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
_MAXIMAL_CURVES = 40


def charts_of(rows: Sequence[Row], example: Row | None, wording: Wording | None = None) -> tuple[Chart, ...]:
    """Every figure that the rows have numbers for; `example` is the one whose ladder is drawn."""
    if wording is None:
        wording = CHECKS if any(row.attacked for row in rows) else CERTIFICATES
    with house_style():
        drawn = (
            layers_chart(rows, wording),
            ladder_chart(example, wording) if example else None,
            convergence_chart(rows, wording),
        )
    return tuple(chart for chart in drawn if chart is not None)


def layers_chart(rows: Sequence[Row], wording: Wording = CHECKS) -> Chart | None:
    """Observed and certified output change per layer, every upper bound a line, the worst sample of each layer."""
    worst = [layer.worst for layer in by_layer(rows)]
    certified = _by_layer((row.layer, _log10(row.certified)) for row in worst)
    observed = _by_layer((row.layer, _log10(row.observed)) for row in worst if row.attacked)
    bounds = _bounds_by_name(worst)
    if not certified and not observed and not bounds:
        return None
    near = _near(bounds, [*certified.values(), *observed.values()])
    figure, axes = canvas(height=4.3)
    tips = Tips()
    for index, (name, line) in enumerate(near.items()):
        colour = _family_colour(name)
        _line(axes, line, tips, name, {"color": colour, "lw": 1.1, "marker": _MARKERS[index % 10], "ms": 3.5})
    _line(axes, certified, tips, "certified", {"color": CERTIFIED, "lw": 2.6, "marker": "o", "ms": 6, "zorder": 4})
    reached = {"color": OBSERVED, "lw": 2.0, "marker": "o", "ms": 6, "zorder": 5, "ls": (0, (4, 2))}
    _line(axes, observed, tips, "observed", reached)
    _layer_axis(axes, {*certified, *observed}.union(*near.values()) if near else {*certified, *observed})
    axes.set_ylabel(wording.axis)
    legend: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5), "fontsize": 8.5, "handlelength": 2.6}
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda index: -_height(handles[index]))  # as the lines stand in the figure
    axes.legend([handles[i] for i in order], [labels[i] for i in order], labelcolor=INK, **legend)
    return Chart(
        f"{wording.prefix}layers",
        wording.title,
        _layers_caption(wording, attacked=bool(observed)) + _beyond(bounds, near),
        _layers_description(observed, certified),
        figure,
        tips,
    )


def _layers_caption(wording: Wording, *, attacked: bool) -> str:
    comparison = (
        f"{wording.reached} The closer the two, the less is given away; an orange point above the blue line would be "
        "a broken promise."
    )
    sentences = (
        wording.promised,
        comparison if attacked else "",
        "Thin lines are the other upper bounds. The axis is logarithmic.",
        wording.worst,
    )
    return " ".join(sentence for sentence in sentences if sentence)


def ladder_chart(row: Row, wording: Wording = CHECKS) -> Chart | None:
    """Every bound of one row on one logarithmic scale."""
    rungs = [rung for rung in row.ladder if rung.log10 is not None and math.isfinite(rung.log10)]
    observed = _log10(row.observed) if row.attacked else None
    if not rungs:
        return None
    base = observed if observed is not None else min(_value(rung) for rung in rungs)
    near = [rung for rung in rungs if _value(rung) <= base + 2 * DECADES_ABOVE]
    figure, axes = canvas(height=0.9 + 0.3 * max(len(near), 2))
    tips = Tips()
    for place, rung in enumerate(near):
        _draw_rung(axes, place, rung, base, tips)
    if observed is not None:
        axes.axvline(10**observed, color=OBSERVED, lw=1.4, ls=(0, (4, 2)))
    axes.margins(x=0.13)
    log_axis(axes, "x")
    axes.set_yticks(range(len(near)), [literal(rung.name) for rung in near])
    axes.tick_params(axis="y", labelcolor=INK)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x")
    axes.invert_yaxis()
    axes.set_xlabel(wording.axis)
    seen = f", dashed line: what the {wording.curve} reached" if observed is not None else ""
    beyond = _beyond({rung.name: {0: _value(rung)} for rung in rungs}, {rung.name: {} for rung in near})
    return Chart(
        f"{wording.prefix}ladder",
        f"The ladder of bounds, {place_of(row)}",
        f"Each row is one theorem’s answer to the same question. Filled blue: the one that certifies{seen}. "
        f"Hollow: a lower bound, which no promise for the same inputs can undercut.{beyond}",
        "; ".join(f"{rung.name} {power_of_ten(rung.log10)}" for rung in near),
        figure,
        tips,
    )


def convergence_chart(rows: Sequence[Row], wording: Wording = CHECKS) -> Chart | None:
    """How far the attack had come after each step, as a share of the promise; the closest records first."""
    curves = [(row, shares) for row in rows if len(shares := _shares(row)) > 1]
    if not curves:
        return None
    curves.sort(key=lambda curve: -max(curve[1].values()))
    figure, axes = canvas(height=3.2)
    tips = Tips()
    for row, shares in curves[:_MAXIMAL_CURVES]:
        tip = tips.mark(f"layer {row.layer}, sample {row.sample}: {percent(max(shares.values()))} of the promise")
        axes.plot(list(shares), list(shares.values()), color=OBSERVED, lw=1.0, alpha=0.45, gid=tip)
    axes.axhline(1.0, color=CERTIFIED, lw=2.0)
    log_axis(axes, "y", label=lambda share: f"{tick(share * 100)} %")
    axes.set_xlabel(f"{wording.curve} step")
    axes.set_ylabel("share of the promise")
    many = f" The {_MAXIMAL_CURVES} closest of {len(curves)} are drawn." if len(curves) > _MAXIMAL_CURVES else ""
    return Chart(
        f"{wording.prefix}convergence",
        f"Did the {wording.curve} finish its work?",
        f"Each curve is one {wording.curve}, step by step, as a share of what is promised (blue line). Curves that are "
        f"flat at the end have found what this {wording.curve} can find; curves still rising would go further with "
        f"more steps.{many}",
        f"{counted(len(curves), 'curve')}; the closest reached {percent(max(curves[0][1].values()))} of its promise",
        figure,
        tips,
    )


def _draw_rung(axes: "matplotlib.axes.Axes", place: int, rung: Rung, base: float, tips: Tips) -> None:
    colour = CERTIFIED if rung.certifies else _family_colour(rung.name)
    value = _value(rung)
    tip = tips.mark(f"{rung.name}: {power_of_ten(value)}")
    axes.plot([10**base, 10**value], [place, place], color=colour, lw=2.4 if rung.certifies else 1.2, alpha=0.75)
    face = "none" if rung.side == "lower" else colour
    size = 8.0 if rung.certifies else 5.5
    axes.plot([10**value], [place], color=colour, marker="o", ms=size, mfc=face, mew=1.4, gid=tip)
    left = value < base  # beside the dot, on the side away from its line
    place_of_text: dict[str, Any] = {"xytext": (-9 if left else 9, 0), "ha": "right" if left else "left"}
    text = power_of_ten(value)
    axes.annotate(text, (10**value, place), textcoords="offset points", va="center", fontsize=8.5, **place_of_text)


def _line(
    axes: "matplotlib.axes.Axes", values: dict[int, float], tips: Tips, label: str, style: dict[str, Any]
) -> None:
    if not values:
        return
    layers = sorted(values)
    marks: dict[str, Any] = {key: style.get(key) for key in ("color", "marker", "ms", "zorder") if key in style}
    axes.plot(layers, [10 ** values[layer] for layer in layers], label=literal(label), **style)
    for layer in layers:
        number = at_least(10 ** values[layer]) if label == "observed" else at_most(10 ** values[layer])
        axes.plot([layer], [10 ** values[layer]], gid=tips.mark(f"layer {layer}, {label}: {number}"), **marks)


def _layer_axis(axes: "matplotlib.axes.Axes", layers: Iterable[int]) -> None:
    from matplotlib.ticker import FixedLocator, MaxNLocator

    known = sorted(layers)
    log_axis(axes, "y")
    axes.set_xlabel("layer")
    axes.xaxis.set_major_locator(FixedLocator(known) if len(known) <= 16 else MaxNLocator(integer=True, nbins=16))
    if known:
        axes.set_xlim(known[0] - 0.5, known[-1] + 0.5)


def _bounds_by_name(rows: Iterable[Row]) -> dict[str, dict[int, float]]:
    """Upper bounds that could be promises, by layer, from the smallest to the largest."""
    pairs: defaultdict[str, list[tuple[int | None, float | None]]] = defaultdict(list)
    for row in rows:
        for rung in row.ladder:
            if rung.side == "upper" and rung.scope != "local" and not rung.name.startswith("comparator."):
                pairs[rung.name].append((row.layer, rung.log10))
    lines = {name: _by_layer(values) for name, values in pairs.items()}
    return dict(sorted(((name, line) for name, line in lines.items() if line), key=lambda item: min(item[1].values())))


def _near(bounds: dict[str, dict[int, float]], shown: Sequence[float]) -> dict[str, dict[int, float]]:
    """The points of each bound that fit on one axis with what must be shown; e^(2a) would flatten everything else."""
    smallest = min((value for line in bounds.values() for value in line.values()), default=0.0)
    ceiling = max(shown, default=smallest) + DECADES_ABOVE
    cut = {name: {layer: value for layer, value in line.items() if value <= ceiling} for name, line in bounds.items()}
    return {name: line for name, line in cut.items() if line}


def _by_layer(pairs: Iterable[tuple[int | None, float | None]]) -> dict[int, float]:
    """The largest finite value per layer; there is one row of each, but a bound may be listed twice."""
    groups: defaultdict[int, list[float]] = defaultdict(list)
    for layer, value in pairs:
        if layer is not None and value is not None and math.isfinite(value):
            groups[layer].append(value)
    return {layer: max(values) for layer, values in groups.items()}


def _shares(row: Row) -> dict[int, float]:
    """Positive output changes per step over the certified one; gaps where a step is not known."""
    if not row.certified or row.certified < 0:
        return {}
    return {
        step: value / row.certified for step, value in enumerate(row.convergence) if value is not None and value > 0
    }


def _beyond(bounds: dict[str, dict[int, float]], near: dict[str, Any]) -> str:
    """The bounds that are too large to draw beside the rest, named with their size."""
    far = [f"{name} ({power_of_ten(largest(line.values()))})" for name, line in bounds.items() if name not in near]
    return f" Far above the axis: {', '.join(far)}." if far else ""


def _layers_description(observed: dict[int, float], certified: dict[int, float]) -> str:
    parts = []
    for layer in sorted({*observed, *certified}):
        seen = f"observed {at_least(10 ** observed[layer])}, " if layer in observed else ""
        promised = f"certified {at_most(10 ** certified[layer])}" if layer in certified else "not certified"
        parts.append(f"layer {layer}: {seen}{promised}")
    return "; ".join(parts)


def _height(line: Any) -> float:
    return float(line.get_ydata()[-1])


def _family_colour(name: str) -> str:
    return OTHER if name.endswith("hull") else _FAMILY_COLOURS.get(name.split(".", 1)[0], OTHER)


def _value(rung: Rung) -> float:
    return rung.log10 if rung.log10 is not None else math.inf


def _log10(value: float | None) -> float | None:
    return math.log10(value) if value is not None and value > 0 else None

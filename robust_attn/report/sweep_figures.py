"""Figures that compare runs: along a swept number where there is one, else run by run."""

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from robust_attn.report.chart import (
    CERTIFIED,
    INK,
    MUTED,
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
from robust_attn.report.numerals import at_least, at_most, finite
from robust_attn.report.sweep_run import SweepRun
from robust_attn.report.trends import group_of, numeric_keys, positive

if TYPE_CHECKING:
    import matplotlib.axes

_COLOURS = (CERTIFIED, OBSERVED, SHARP, PAPER, OTHER, MUTED, INK)
_MAXIMAL_GROUPS = 8
_MAXIMAL_RUNS = 60


def sweep_charts(runs: Sequence[SweepRun], keys: Sequence[str]) -> tuple[Chart, ...]:
    """One chart per swept number with at least two values, and the runs side by side."""
    with house_style():
        known = [run for run in runs if (run.certified or 0) > 0 or (run.observed or 0) > 0]
        kept = [key for key in keys if len({run.settings[key] for run in known}) > 1]
        along = [_along(known, kept, key) for key in numeric_keys(known, kept)[:3]]
        drawn = (*along, _side_by_side(known, kept))
    return tuple(chart for chart in drawn if chart is not None)


def _along(runs: Sequence[SweepRun], keys: Sequence[str], key: str) -> Chart | None:
    groups: defaultdict[str, list[SweepRun]] = defaultdict(list)
    for run in runs:
        groups[group_of(run, keys, key)].append(run)
    figure, axes = canvas(height=4.2)
    tips = Tips()
    places: set[float] = set()
    for colour, (group, members) in zip(_COLOURS * 2, list(groups.items())[:_MAXIMAL_GROUPS], strict=False):
        for quantity in ("certified", "observed"):
            points = _points(members, key, quantity)
            _curve(axes, points, tips, label=f"{group}, {quantity}", colour=colour, dashed=quantity == "observed")
            places |= {x for x, _ in points}
    if len(places) < 2:
        return None
    log_axis(axes, "x", at=places)
    log_axis(axes, "y")
    axes.set(xlabel=literal(key), ylabel="change of the output")
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), labelcolor=INK, fontsize=8)
    many = f" The first {_MAXIMAL_GROUPS} of {len(groups)} groups are drawn." if len(groups) > _MAXIMAL_GROUPS else ""
    return Chart(
        f"along-{''.join(c if c.isalnum() else '-' for c in key)}",
        f"Certified and observed against {key}",
        f"Solid: the promise. Dashed: the strongest attack found. Both axes are logarithmic.{many}",
        f"{len(groups)} groups, {len(places)} values of {key}",
        figure,
        tips,
    )


def _points(members: Sequence[SweepRun], key: str, quantity: str) -> list[tuple[float, float]]:
    pairs = ((positive(run.settings[key]), finite(getattr(run, quantity))) for run in members)
    return sorted((x, y) for x, y in pairs if x is not None and y is not None and y > 0)


def _curve(
    axes: "matplotlib.axes.Axes",
    points: Sequence[tuple[float, float]],
    tips: Tips,
    *,
    label: str,
    colour: str,
    dashed: bool,
) -> None:
    if not points:
        return
    style = (0, (4, 2)) if dashed else "-"
    axes.plot([x for x, _ in points], [y for _, y in points], color=colour, lw=1.7, ls=style, label=literal(label))
    for x, y in points:
        tip = tips.mark(f"{label}, {x:g}: {at_least(y) if dashed else at_most(y)}")
        axes.plot([x], [y], color=colour, marker="o", ms=5, mfc="none" if dashed else colour, gid=tip)


def _side_by_side(runs: Sequence[SweepRun], keys: Sequence[str]) -> Chart | None:
    known = runs[:_MAXIMAL_RUNS]
    if not known:
        return None
    figure, axes = canvas(height=0.9 + 0.24 * max(len(known), 3))
    tips = Tips()
    for place, run in enumerate(known):
        ends = [value for value in (run.observed, run.certified) if value is not None and value > 0]
        axes.plot([min(ends), max(ends)], [place, place], color=OTHER, lw=1.2, zorder=1)
        for value, colour, name in ((run.observed, OBSERVED, "observed"), (run.certified, CERTIFIED, "certified")):
            if value is not None and value > 0:
                number = at_least(value) if name == "observed" else at_most(value)
                tip = tips.mark(f"{run.label}, {name}: {number}")
                axes.plot([value], [place], color=colour, marker="o", ms=6, gid=tip, label=name if not place else None)
    log_axis(axes, "x")
    axes.set_yticks(range(len(known)), [literal(_short(run, keys)) for run in known])
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x")
    axes.invert_yaxis()
    axes.set_xlabel("change of the output")
    many = f" The first {_MAXIMAL_RUNS} runs are drawn." if len(runs) > _MAXIMAL_RUNS else ""
    caption = (
        f"Blue: the largest promise of the run. Orange: the strongest attack. A short line is a tight promise.{many}"
    )
    return Chart("runs", "Run by run", caption, f"{len(known)} runs", figure, tips)


def _short(run: SweepRun, keys: Sequence[str]) -> str:
    text = ", ".join(run.settings[key] for key in keys) or run.label
    return text if len(text) <= 48 else text[:47] + "…"

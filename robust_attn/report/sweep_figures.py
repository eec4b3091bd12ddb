"""Figures that compare runs: along a swept number where there is one, else run by run."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from robust_attn.report.chart import (
    CERTIFIED,
    INK,
    OBSERVED,
    OTHER,
    SERIES,
    Chart,
    Tips,
    canvas,
    curve,
    house_style,
    literal,
    log_axis,
)
from robust_attn.report.numerals import at_least, at_most, finite
from robust_attn.report.sweep_run import SweepRun
from robust_attn.report.trends import group_of, numeric_keys, positive

_MAXIMAL_GROUPS = 8
_MAXIMAL_RUNS = 60


@dataclass(frozen=True)
class Axis:
    """What is drawn against a swept number."""

    prefix: str
    quantities: tuple[str, ...]
    label: str
    title: str
    caption: str


PROMISES = Axis(
    prefix="along",
    quantities=("certified", "observed"),
    label="change of the output",
    title="Certified and observed",
    caption="Solid: the promise. Dashed: the strongest attack found.",
)
CONSTANTS = Axis(
    prefix="constant",
    quantities=("lipschitz",),
    label="largest local Lipschitz constant",
    title="Sensitivity",
    caption="The largest gain that was measured or found, per unit of input change.",
)
_MEANINGS = {"budget.radius": "the size of the perturbation (budget.radius)", "tokens": "the number of tokens"}


def sweep_charts(runs: Sequence[SweepRun], keys: Sequence[str]) -> tuple[Chart, ...]:
    """One chart per swept number with at least two values, and the runs side by side."""
    with house_style():
        known = _with(runs, PROMISES)
        kept = _differing(known, keys)
        drawn = (*_axes_of(runs, keys, PROMISES), *_axes_of(runs, keys, CONSTANTS), _side_by_side(known, kept))
    return tuple(chart for chart in drawn if chart is not None)


def _axes_of(runs: Sequence[SweepRun], keys: Sequence[str], axis: Axis) -> list[Chart | None]:
    known = _with(runs, axis)
    kept = _differing(known, keys)
    return [_along(known, kept, key, axis) for key in numeric_keys(known, kept)[:3]]


def _with(runs: Sequence[SweepRun], axis: Axis) -> list[SweepRun]:
    return [run for run in runs if any((getattr(run, quantity) or 0) > 0 for quantity in axis.quantities)]


def _differing(runs: Sequence[SweepRun], keys: Sequence[str]) -> list[str]:
    return [key for key in keys if len({run.settings[key] for run in runs}) > 1]


def _along(runs: Sequence[SweepRun], keys: Sequence[str], key: str, axis: Axis) -> Chart | None:
    groups: defaultdict[str, list[SweepRun]] = defaultdict(list)
    for run in runs:
        groups[group_of(run, keys, key)].append(run)
    figure, axes = canvas(height=4.2)
    tips = Tips()
    places: set[float] = set()
    for colour, (group, members) in zip(SERIES, list(groups.items())[:_MAXIMAL_GROUPS], strict=False):
        for quantity in axis.quantities:
            points = _points(members, key, quantity)
            curve(axes, points, tips, label=f"{group}, {quantity}", colour=colour, dashed=quantity != "certified")
            places |= {x for x, _ in points}
    if len(places) < 2:
        return None
    log_axis(axes, "x", at=places)
    log_axis(axes, "y")
    axes.set(xlabel=literal(key), ylabel=axis.label)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), labelcolor=INK, fontsize=8)
    many = f" The first {_MAXIMAL_GROUPS} of {len(groups)} groups are drawn." if len(groups) > _MAXIMAL_GROUPS else ""
    return Chart(
        f"{axis.prefix}-{''.join(c if c.isalnum() else '-' for c in key)}",
        f"{axis.title} against {_MEANINGS.get(key, key)}",
        f"{axis.caption} Both axes are logarithmic.{many}",
        f"{len(groups)} groups, {len(places)} values of {key}",
        figure,
        tips,
    )


def _points(members: Sequence[SweepRun], key: str, quantity: str) -> list[tuple[float, float]]:
    """The largest of the repeated runs at each value of the key, in order."""
    pairs = ((positive(run.settings[key]), finite(getattr(run, quantity))) for run in members)
    known = sorted((x, y) for x, y in pairs if x is not None and y is not None and y > 0)
    return list(dict(known).items())


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

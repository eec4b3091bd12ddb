"""Panels as matplotlib figures, and as PNG files in the figures folder of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from robust_attn.report.chart import INK, canvas, house_style, literal, log_axis
from robust_attn.report.numerals import power_of_ten
from robust_attn.views.panel import Panel, Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#999999")
MARKERS = "osD^vPX*"
DECADES = 12
"""What lies further above the smallest value is named beside the figure: e^(2a) would flatten everything else."""


def write_figures(panels: Sequence[Panel], folder: Path) -> tuple[Path, ...]:
    """One PNG per panel that has a point, named after it."""
    return tuple(_write(panel, folder) for panel in panels if any(panel.lines.values()))


def figure_of(panel: Panel) -> Figure:
    """The panel drawn: lines with markers, bounds dashed, logarithmic where the panel says so."""
    lines = {name: [(x, y) for x, y in points if y > 0 and math.isfinite(y)] for name, points in panel.lines.items()}
    ceiling = _ceiling(lines)
    with house_style():
        figure, axes = canvas()
        for index, (name, points) in enumerate(lines.items()):
            near = [(x, y) for x, y in points if y <= ceiling]
            beyond = (
                f" (up to {power_of_ten(math.log10(max(y for _, y in points)))})" if len(near) < len(points) else ""
            )
            _draw(axes, f"{name}{beyond}", near, index, name in panel.dashed)
        axes.set(title=literal(panel.title), xlabel=literal(panel.x_label), ylabel=literal(panel.y_label))
        if any(lines.values()):
            log_axis(axes, "y")
        if panel.log_x and any(lines.values()):
            log_axis(axes, "x", at={x for points in lines.values() for x, _ in points if x > 0})
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8, labelcolor=INK)
    return figure


def _ceiling(lines: Mapping[str, Sequence[Point]]) -> float:
    smallest = min((y for points in lines.values() for _, y in points), default=1.0)
    return smallest * 10.0**DECADES


def _write(panel: Panel, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{panel.name}.png"
    with house_style():
        figure_of(panel).savefig(path, dpi=100, facecolor="white")
    return path


def _draw(axes: Axes, name: str, points: Sequence[Point], index: int, dashed: bool) -> None:
    """A line without points near enough still has its entry in the legend."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    colour = COLOURS[index % len(COLOURS)]
    if dashed:
        axes.plot(xs, ys, color=colour, lw=1.3, ls=(0, (4, 2)), label=literal(name))
    else:
        marker = MARKERS[index % len(MARKERS)]
        axes.plot(xs, ys, color=colour, lw=1.6, marker=marker, ms=4.5, label=literal(name))

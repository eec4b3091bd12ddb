"""Panels as PNG files in the figures folder of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from robust_attn.experiments.panel import Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#999999")
MARKERS = "osD^vPX*"


def write_figures(panels: Sequence[Panel], folder: Path) -> tuple[Path, ...]:
    """One PNG per panel that has a point, named after it."""
    return tuple(_write(panel, folder) for panel in panels if any(panel.lines.values()))


def _write(panel: Panel, folder: Path) -> Path:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for index, (name, points) in enumerate(panel.lines.items()):
        _draw(axes, name, [(x, y) for x, y in points if y > 0 and math.isfinite(y)], index, name in panel.dashed)
    axes.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label, yscale="log")
    axes.set_xscale("log" if panel.log_x else "linear")
    axes.grid(alpha=0.25, which="major")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8, frameon=False)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{panel.name}.png"
    figure.savefig(path, dpi=100)
    return path


def _draw(axes: Axes, name: str, points: list[tuple[float, float]], index: int, dashed: bool) -> None:
    if not points:
        return
    xs, ys = zip(*points, strict=True)
    colour = COLOURS[index % len(COLOURS)]
    if dashed:
        axes.plot(xs, ys, color=colour, lw=1.3, ls=(0, (4, 2)), label=name)
    else:
        axes.plot(xs, ys, color=colour, lw=1.6, marker=MARKERS[index % len(MARKERS)], ms=4.5, label=name)

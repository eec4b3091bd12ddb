"""The house style of figures: colours, canvas, axes."""

import importlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from robust_attn.views.numerals import tick

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

INK, MUTED, LINE = "#1c2127", "#646c76", "#dfe3e8"
OBSERVED, CERTIFIED = "#c4450c", "#0b63b5"
PAPER, SHARP, LOCAL, OTHER = "#8250a8", "#1d8a6c", "#5b8fc7", "#9a9fa6"
SERIES = (CERTIFIED, OBSERVED, SHARP, PAPER, LOCAL, OTHER, MUTED, INK)
"""Colours of lines that stand for nothing in particular, one after another."""
VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    LINE: "--line",
    OBSERVED: "--observed",
    CERTIFIED: "--certified",
    PAPER: "--paper-bound",
    SHARP: "--sharp-bound",
    LOCAL: "--local-bound",
    OTHER: "--other-bound",
}
"""The name of each colour in the style of a page."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
WIDTH = 4.4
"""Inches. Narrow, so that the smallest letters can still be read on a telephone."""
SMALL = 9.0
_FAMILIES = {"paper": PAPER, "sharp": SHARP, "local": LOCAL, "ball": LOCAL, "split": LOCAL, "context": LOCAL}
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "robust_attn",
    "font.family": "sans-serif",
    "font.size": 10.0,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": LINE,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "grid.color": LINE,
    "grid.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


def get_ready() -> None:
    """Import what drawing needs, which takes half a second; whatever is wrong with it is told by who draws."""
    with suppress(Exception):
        importlib.import_module("matplotlib.figure")
        importlib.import_module("matplotlib.backends.backend_agg")
        importlib.import_module("matplotlib.backends.backend_svg")


@contextmanager
def house_style() -> Iterator[None]:
    """Matplotlib's settings for the time of drawing; restored afterwards."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        yield


def canvas(height: float) -> tuple["matplotlib.figure.Figure", "matplotlib.axes.Axes"]:
    """An empty figure in the house style, without pyplot and its global state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    return figure, axes


def literal(text: str) -> str:
    """Text that matplotlib does not take for mathematics."""
    return text.replace("$", r"\$")


def family_colour(name: str) -> str:
    """The colour of a bound by its family; the trivial one is grey."""
    return OTHER if name.endswith("hull") else _FAMILIES.get(name.split(".", 1)[0], OTHER)


def log_axis(
    axes: "matplotlib.axes.Axes", name: str, *, at: Collection[float] = (), label: Callable[[float], str] = tick
) -> None:
    """A logarithmic axis with labels in plain numbers: at given places, else at round numbers or decades."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

    axis = axes.xaxis if name == "x" else axes.yaxis
    (axes.set_xscale if name == "x" else axes.set_yscale)("log")
    low, high = axes.get_xlim() if name == "x" else axes.get_ylim()
    steps = (1.0, 2.0, 5.0) if high < 80 * low else (1.0,)
    most = 6 if name == "x" else 8
    free = MaxNLocator(nbins=5, steps=[1, 2, 5, 10]) if high < 4 * low else LogLocator(subs=steps, numticks=most)
    axis.set_major_locator(FixedLocator(sorted(at)) if 0 < len(at) <= 8 else free)
    axis.set_major_formatter(FuncFormatter(lambda value, _: label(float(value))))
    axis.set_minor_locator(NullLocator())


def share_axis(axes: "matplotlib.axes.Axes") -> None:
    """A vertical axis from nothing to all, in per cent."""
    axes.set_ylim(-0.02, 1.04)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1.0], ["0 %", "25 %", "50 %", "75 %", "100 %"])


def whole_axis(axes: "matplotlib.axes.Axes", places: Collection[float]) -> None:
    """A horizontal axis of whole numbers, a mark at each if there are few."""
    from matplotlib.ticker import FixedLocator, MaxNLocator

    known = sorted(set(places))
    axes.xaxis.set_major_locator(FixedLocator(known) if len(known) <= 12 else MaxNLocator(integer=True, nbins=10))
    if 0 < len(known) <= 12:
        axes.set_xlim(known[0] - 0.5, known[-1] + 0.5)

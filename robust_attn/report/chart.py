"""A figure with its words, as a theme-aware inline SVG and as a PNG file."""

import html
import io
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_attn.report.numerals import at_least, at_most, tick

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

INK, MUTED, LINE = "#1c2127", "#646c76", "#dfe3e8"
OBSERVED, CERTIFIED = "#c4450c", "#0b63b5"
PAPER, SHARP, LOCAL, OTHER = "#8250a8", "#1d8a6c", "#5b8fc7", "#9a9fa6"
SERIES = (CERTIFIED, OBSERVED, SHARP, PAPER, LOCAL, OTHER, MUTED, INK)
"""Colours of lines that stand for nothing in particular, one after another."""
_VARIABLES = {
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
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "robust_attn",
    "font.family": "sans-serif",
    "font.size": 9.5,
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
_MAXIMAL_TIPS = 1500


@dataclass
class Tips:
    """Hover texts of marks, by the id that matplotlib writes into the SVG."""

    texts: dict[str, str] = field(default_factory=dict)

    def mark(self, text: str) -> str | None:
        """The id for a mark whose hover shows `text`; None when there are so many that the file would swell."""
        if len(self.texts) >= _MAXIMAL_TIPS:
            return None
        name = f"tip{len(self.texts)}"
        self.texts[name] = text
        return name


@dataclass(frozen=True)
class Chart:
    """A drawn figure; `description` says in words what it shows, for those who cannot see it."""

    name: str
    title: str
    caption: str
    description: str
    figure: "matplotlib.figure.Figure"
    tips: Tips


@contextmanager
def house_style() -> Iterator[None]:
    """Matplotlib's settings for the time of drawing; restored afterwards."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        yield


def literal(text: str) -> str:
    """Text that matplotlib does not take for mathematics."""
    return text.replace("$", r"\$")


def canvas(width: float = 8.6, height: float = 3.9) -> tuple["matplotlib.figure.Figure", "matplotlib.axes.Axes"]:
    """An empty figure in the house style, without pyplot and its global state."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.add_subplot()
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        axes.tick_params(length=0)
    return figure, axes


def log_axis(
    axes: "matplotlib.axes.Axes",
    name: str,
    *,
    at: Collection[float] = (),
    label: Callable[[float], str] = tick,
) -> None:
    """A logarithmic axis with labels in plain numbers: at given places, else at round numbers or decades."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

    axis = axes.xaxis if name == "x" else axes.yaxis
    (axes.set_xscale if name == "x" else axes.set_yscale)("log")
    low, high = axes.get_xlim() if name == "x" else axes.get_ylim()
    steps = (1.0, 2.0, 5.0) if high < 80 * low else (1.0,)
    free = MaxNLocator(nbins=5, steps=[1, 2, 5, 10]) if high < 4 * low else LogLocator(subs=steps, numticks=9)
    axis.set_major_locator(FixedLocator(sorted(at)) if 0 < len(at) <= 12 else free)
    axis.set_major_formatter(FuncFormatter(lambda value, _: label(float(value))))
    axis.set_minor_locator(NullLocator())


def curve(
    axes: "matplotlib.axes.Axes",
    points: Sequence[tuple[float, float]],
    tips: Tips,
    *,
    label: str,
    colour: str,
    dashed: bool,
) -> None:
    """A line through points that tell their values, dashed and hollow where it is what was reached."""
    if not points:
        return
    style = (0, (4, 2)) if dashed else "-"
    axes.plot([x for x, _ in points], [y for _, y in points], color=colour, lw=1.7, ls=style, label=literal(label))
    for x, y in points:
        tip = tips.mark(f"{label}, {x:g}: {at_least(y) if dashed else at_most(y)}")
        axes.plot([x], [y], color=colour, marker="o", ms=5, mfc="none" if dashed else colour, gid=tip)


def png_file(chart: Chart, folder: Path) -> Path:
    """The chart as a PNG on white, in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{chart.name}.png"
    with house_style():
        chart.figure.savefig(path, format="png", dpi=144, facecolor="white", metadata={"Software": None})
    chart.figure.set_layout_engine("none")  # its parts have their places by now; to look for them twice takes as long
    return path


def svg_text(chart: Chart) -> str:
    """The chart as an SVG element to put into a page, coloured by the page's own variables."""
    buffer = io.StringIO()
    with house_style():
        empty = {"Date": None, "Creator": None, "Format": None, "Type": None}
        chart.figure.savefig(buffer, format="svg", transparent=True, metadata=empty)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    return _with_label(_with_variables(_with_unique_ids(_with_tips(svg, chart.tips), chart.name)), chart)


def _with_tips(svg: str, tips: Tips) -> str:
    for name, text in tips.texts.items():
        svg = svg.replace(f'<g id="{name}">', f'<g id="{name}" class="mark"><title>{html.escape(text)}</title>', 1)
    return svg


def _with_unique_ids(svg: str, prefix: str) -> str:
    """Several SVG elements share one page, where an id may occur once."""
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    return svg.replace('href="#', f'href="#{prefix}-').replace("url(#", f"url(#{prefix}-")


def _with_variables(svg: str) -> str:
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    return re.sub(r"font: ([\d.]+px)[^;\"]*", r"font: \1 var(--sans)", svg)


def _with_label(svg: str, chart: Chart) -> str:
    """Sized by the page instead of in points, and named for screen readers; namespaces are implied in HTML."""
    head, body = svg.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', head)
    label = html.escape(f"{chart.title}. {chart.description}", quote=True)
    return f'<svg {box.group() if box else ""} role="img" aria-label="{label}">{body.replace("xlink:href", "href")}'

"""Panels as matplotlib figures, every kind of panel in one style."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from robust_attn.report.style import (
    CERTIFIED,
    INK,
    MARKERS,
    MUTED,
    OBSERVED,
    OTHER,
    SERIES,
    SMALL,
    canvas,
    family_colour,
    house_style,
    literal,
    log_axis,
    share_axis,
    whole_axis,
)
from robust_attn.views.numerals import at_most, tick
from robust_attn.views.panel import Look, MapCell, Panel, Point, Role
from robust_attn.views.words import shortened

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

DECADES = 12
"""What lies further above the smallest value is named in the legend: e^(2a) would flatten everything else."""
FINEST = 0.05
"""A linear axis around a level reaches at least this far from it: rounding must not look like a difference."""
MOST_TIPS = 1500
ROW, ROW_BELOW_NAME = 0.27, 0.4
"""Inches that a row of a figure beside names takes, and one below its name."""
LONGEST_BESIDE = 14
"""Characters of a name that stands beside its row."""
LONGEST_UPRIGHT = 34
"""Characters of an upright line beside an axis: the axis is no longer."""
_DASHES = (0, (4, 2))
_STYLES: dict[Role, dict[str, Any]] = {
    Role.CERTIFIED: {"lw": 2.6, "marker": "o", "ms": 6.0, "zorder": 4},
    Role.OBSERVED: {"lw": 2.0, "marker": "o", "ms": 6.0, "zorder": 5, "ls": _DASHES},
    Role.REACHED: {"lw": 1.6, "marker": "o", "mfc": "none", "ls": _DASHES},
    Role.BOUND: {"lw": 1.1, "ms": 4.5},
    Role.LOWER: {"lw": 1.1, "marker": "o", "ms": 5.5, "mfc": "none", "mew": 1.4},
    Role.TANGENT: {"lw": 1.0, "marker": "D", "mfc": "none", "mew": 1.2},
    Role.TRACE: {"lw": 1.0, "marker": "", "alpha": 0.45},
}
_STEPS: dict[Role, dict[str, Any]] = {
    Role.CERTIFIED: {"lw": 2.8, "zorder": 4},
    Role.OBSERVED: {"lw": 2.2, "zorder": 5, "ls": _DASHES},
}
_STEP_MARK: dict[str, Any] = {"marker": "o", "ms": 2.6}
_LIGHTEST, _DARKEST = 0.06, 0.55  # opacities: ink stays readable on the darkest cell, in either theme


@dataclass
class Tips:
    """Hover texts of marks, by the id that matplotlib writes into the SVG."""

    texts: dict[str, str] = field(default_factory=dict)

    def mark(self, text: str) -> str | None:
        """The id for a mark whose hover shows `text`; None when there are so many that the file would swell."""
        if len(self.texts) >= MOST_TIPS:
            return None
        name = f"tip{len(self.texts)}"
        self.texts[name] = text
        return name


@dataclass(frozen=True)
class Drawing:
    """A panel drawn."""

    panel: Panel
    figure: "matplotlib.figure.Figure"
    tips: Tips


def drawn(panel: Panel) -> Drawing:
    """The panel as a figure: a map, marks beside names, or lines over an axis."""
    tips = Tips()
    with house_style():
        if panel.cells:
            figure = _map(panel, tips)
        else:
            figure = _beside_names(panel, tips) if panel.categories else _over_axis(panel, tips)
    return Drawing(panel, figure, tips)


def style_of(panel: Panel, name: str) -> dict[str, Any]:
    """How matplotlib draws a line: colour, width, dashes, marker."""
    look = panel.look(name)
    colour = _colour(panel, name, look)
    if name in panel.dashed:
        return {"color": colour, "lw": 1.2, "ls": _DASHES, "marker": ""}
    if panel.steps:
        return {"color": colour, "drawstyle": "steps-post", "marker": "", **_STEPS.get(look.role, {"lw": 1.5})}
    order = 0 if panel.categories else list(panel.lines).index(name) % len(MARKERS)
    return {"color": colour, "lw": 1.7, "marker": MARKERS[order], "ms": 5.0} | _STYLES.get(look.role, {})


def _colour(panel: Panel, name: str, look: Look) -> str:
    match look.role:
        case Role.CERTIFIED:
            return CERTIFIED
        case Role.OBSERVED | Role.TRACE:
            return OBSERVED
        case Role.TANGENT:
            return OTHER
        case Role.BOUND | Role.LOWER:
            return family_colour(look.group or name)
        case _:
            roles = {panel.look(other).role for other in panel.lines}
            taken = {CERTIFIED} if roles & {Role.CERTIFIED, Role.NEAREST} else set()
            taken |= {OBSERVED} if Role.OBSERVED in roles else set()
            free = [colour for colour in SERIES if colour not in taken]
            groups = list(dict.fromkeys(panel.look(other).group or other for other in panel.lines))
            return free[groups.index(look.group or name) % len(free)]


def _over_axis(panel: Panel, tips: Tips) -> "matplotlib.figure.Figure":
    near, names = _near(panel)
    entries = 0 if all(panel.look(name).role is Role.TRACE for name in near) else len(near)
    figure, axes = canvas(2.9 + 0.2 * _legend_rows(names, entries))
    for name, points in near.items():
        _line(axes, panel, name, points, label=names[name], tips=tips)
    for x, low, high in panel.ranges:
        axes.vlines([x], [low], [high], color=OTHER, alpha=0.6, lw=1.4)
    _level(axes, panel, upright=False)
    _axes(axes, panel, near)
    upright = "\n".join(textwrap.wrap(panel.y_label, LONGEST_UPRIGHT))
    axes.set(xlabel=literal(panel.x_label), ylabel=literal(upright))
    if entries:
        _legend(figure, axes, names)
    return figure


def _near(panel: Panel) -> tuple[dict[str, list[Point]], dict[str, str]]:
    """What fits on one axis, and the name of each line in the legend: one that leaves the axis says how far it goes."""
    known = {
        name: [(x, y) for x, y in points if math.isfinite(y) and (y > 0 or not panel.log_y)]
        for name, points in panel.lines.items()
    }
    lowest = min((y for points in known.values() for _, y in points), default=1.0)
    ceiling = lowest * 10.0**DECADES if panel.log_y else math.inf
    near = {name: [(x, y) for x, y in points if y <= ceiling] for name, points in known.items()}
    names = {
        name: f"{name} (up to {at_most(max(y for _, y in points))})" if len(near[name]) < len(points) else name
        for name, points in known.items()
    }
    return near, names


def _line(
    axes: "matplotlib.axes.Axes", panel: Panel, name: str, points: Sequence[Point], *, label: str, tips: Tips
) -> None:
    """A line whose marks tell their values; one of many tells its last value as a whole."""
    style = style_of(panel, name)
    trace = panel.look(name).role is Role.TRACE
    best = max((y for _, y in points), default=0.0)
    tip = tips.mark(f"{name}: {panel.value(name, best)}") if trace and points else None
    xs, ys = [x for x, _ in points], [y for _, y in points]
    axes.plot(xs, ys, label=literal(label), gid=tip, **style)
    if not trace and name not in panel.dashed:
        marks = {key: value for key, value in style.items() if key != "ls"} | (_STEP_MARK if panel.steps else {})
        for x, y in _turns(points) if panel.steps else points:
            axes.plot([x], [y], gid=tips.mark(f"{panel.place(x)}, {name}: {panel.value(name, y)}"), **marks)


def _turns(points: Sequence[Point]) -> list[Point]:
    """Where a line of steps begins, and where its value changes."""
    before = (None, *(y for _, y in points))
    return [point for point, last in zip(points, before, strict=False) if point[1] != last]


def _axes(axes: "matplotlib.axes.Axes", panel: Panel, near: Mapping[str, Sequence[Point]]) -> None:
    places = {x for points in near.values() for x, _ in points}
    if not places:
        return
    if panel.steps and panel.percent:
        share_axis(axes)
    elif panel.log_y:
        log_axis(axes, "y", label=(lambda share: f"{tick(share * 100)} %") if panel.percent else tick)
    elif panel.level is not None:
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, panel.level - FINEST), max(high, panel.level + FINEST))
    if panel.log_x and min(places) > 0:
        log_axis(axes, "x", at=() if panel.steps else places)  # where steps turn is no place for a label
    elif all(x == int(x) for x in places):
        whole_axis(axes, places)


def _level(axes: "matplotlib.axes.Axes", panel: Panel, *, upright: bool) -> None:
    """The value to compare with: what was reached among bounds, the promise among shares."""
    if panel.level is None or (panel.log_y and panel.level <= 0):
        return
    if upright and _names_above(panel):  # beside the marks alone, not through the names
        places = sorted({place for points in panel.lines.values() for place, _ in points})
        low, high = [place - 0.2 for place in places], [place + 0.2 for place in places]
        axes.vlines([panel.level] * len(places), low, high, color=OBSERVED, lw=1.6)
    elif upright:
        axes.axvline(panel.level, color=OBSERVED, lw=1.4, ls=_DASHES)
    else:
        axes.axhline(panel.level, color=CERTIFIED if panel.percent else OTHER, lw=1.6)


def _beside_names(panel: Panel, tips: Tips) -> "matplotlib.figure.Figure":
    """Marks on a horizontal scale, a row per name; where a row has one mark, its value stands beside it."""
    marks = [place for points in panel.lines.values() for place, _ in points]
    single = len(marks) == len(set(marks)) and all(len(points) < 2 for points in panel.lines.values())
    entries = 0 if single or len(panel.lines) < 2 else len(panel.lines)
    rows = _legend_rows(dict.fromkeys(panel.lines, ""), entries)
    pitch = ROW_BELOW_NAME if _names_above(panel) else ROW
    figure, axes = canvas(0.75 + pitch * max(len(panel.categories), 2) + 0.2 * rows)
    for place, low, high in panel.ranges:
        axes.plot([low, high], [place, place], color=OTHER, lw=1.2, alpha=0.75, zorder=1)
    if panel.bars:
        _bars(axes, panel, tips)
        return figure
    for name, points in panel.lines.items():
        style = style_of(panel, name) | {"ls": "", "label": literal(name)}
        for place, value in points:
            tip = tips.mark(f"{panel.place(place)}{'' if single else ', ' + name}: {panel.value(name, value)}")
            axes.plot([value], [place], gid=tip, **style)
            style.pop("label", None)
            if single:
                _value_beside(axes, panel, name, place, value)
    _level(axes, panel, upright=True)
    axes.margins(x=0.16 if single else 0.06)
    log_axis(axes, "x") if panel.log_y and any(panel.lines.values()) else None
    _names(axes, panel)
    axes.grid(axis="x")
    axes.set_xlabel(literal(panel.y_label))
    if entries:
        _legend(figure, axes, {name: name for name in panel.lines})
    return figure


def _bars(axes: "matplotlib.axes.Axes", panel: Panel, tips: Tips) -> None:
    """A bar per name, with its value at the end."""
    for name, points in panel.lines.items():
        for place, value in points:
            tip = tips.mark(f"{panel.place(place)}: {panel.value(name, value)}")
            (bar,) = axes.barh([place], [value], height=0.62, color=style_of(panel, name)["color"])
            bar.set_gid(tip)
            _value_beside(axes, panel, name, place, value)
    axes.margins(x=0.2)
    _names(axes, panel)
    axes.set_xticks([])
    axes.set_xlabel(literal(panel.y_label))


def _names_above(panel: Panel) -> bool:
    """Whether names are too long to stand beside their rows: on a narrow screen they would leave no room for these."""
    return max(map(len, panel.categories)) > LONGEST_BESIDE


def _names(axes: "matplotlib.axes.Axes", panel: Panel) -> None:
    """Beside the rows, or each above its own; a row without a mark is a title of those that follow."""
    shown = [literal(shortened(name, 46)) for name in panel.categories]
    axes.grid(axis="y", visible=False)
    if not _names_above(panel):
        axes.set_yticks(range(len(shown)), shown)
        axes.tick_params(axis="y", labelcolor=INK, labelsize=SMALL)
        axes.set_ylim(len(shown) - 0.5, -0.5)
        return
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    marked = {place for points in panel.lines.values() for place, _ in points}
    for place, name in enumerate(shown):
        style: dict[str, Any] = {"color": INK} if place in marked else {"color": MUTED, "style": "italic"}
        axes.text(
            0, place - 0.42, name, transform=axes.get_yaxis_transform(), va="center", ha="left", fontsize=SMALL, **style
        )
    axes.set_ylim(len(shown) - 0.6, -0.75)


def _value_beside(axes: "matplotlib.axes.Axes", panel: Panel, name: str, place: float, value: float) -> None:
    """On the side of the mark that is away from its line."""
    ends = [(low, high) for at, low, high in panel.ranges if at == place]
    left = bool(ends) and value == ends[0][0] and value != ends[0][1]
    side: dict[str, Any] = {"xytext": (-8 if left else 8, 0), "ha": "right" if left else "left"}
    text = panel.value(name, value)
    axes.annotate(text, (value, place), textcoords="offset points", va="center", fontsize=SMALL, **side)


def _map(panel: Panel, tips: Tips) -> "matplotlib.figure.Figure":
    rows = {row: place for place, row in enumerate(sorted({cell.row for cell in panel.cells}))}
    columns = sorted({cell.column for cell in panel.cells})
    figure, axes = canvas(0.9 + 0.3 * max(2, len(rows)))
    low, high = (math.log(choose(cell.value for cell in panel.cells)) for choose in (min, max))
    for cell in panel.cells:
        depth = (math.log(cell.value) - low) / (high - low) if high > low else 0.5
        _cell(axes, cell, rows[cell.row], _LIGHTEST + depth * (_DARKEST - _LIGHTEST), tips)
    axes.set_xlim(columns[0] - 0.5, columns[-1] + 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xticks(columns if len(columns) <= 16 else columns[:: math.ceil(len(columns) / 16)])
    axes.set_yticks(range(len(rows)), [str(row) for row in rows])
    axes.grid(visible=False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.set(xlabel=literal(panel.x_label), ylabel=literal(panel.y_label))
    return figure


def _cell(axes: "matplotlib.axes.Axes", cell: MapCell, row: int, shade: float, tips: Tips) -> None:
    from matplotlib.patches import Rectangle

    corner = (cell.column - 0.46, row - 0.46)
    tip = tips.mark(cell.tip)
    axes.add_patch(Rectangle(corner, 0.92, 0.92, facecolor=CERTIFIED, alpha=shade, edgecolor="none", gid=tip))
    if cell.shown:
        axes.text(cell.column, row, cell.shown, ha="center", va="center", fontsize=8, color=INK, clip_on=True)


def _legend_rows(names: Mapping[str, str], entries: int) -> int:
    """How many rows the legend takes: two columns if names are short enough for that."""
    return math.ceil(entries / _legend_columns(names)) if entries else 0


def _legend_columns(names: Mapping[str, str]) -> int:
    longest = max((len(shown or name) for name, shown in names.items()), default=0)
    return 3 if longest <= 9 else 2 if longest <= 20 else 1


def _legend(figure: "matplotlib.figure.Figure", axes: "matplotlib.axes.Axes", names: Mapping[str, str]) -> None:
    """Below the figure, where it takes no width."""
    handles, labels = axes.get_legend_handles_labels()
    style: dict[str, Any] = {"fontsize": SMALL, "handlelength": 2.2, "columnspacing": 1.2, "labelcolor": INK}
    figure.legend(handles, labels, loc="outside lower left", ncols=_legend_columns(names), **style)

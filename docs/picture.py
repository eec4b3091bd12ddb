"""Draws docs/figures/moved_split_bounded.svg: what is moved, split and bounded. A sketch, nothing in it is measured.

python docs/picture.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch

TARGET = Path(__file__).resolve().parent / "figures" / "moved_split_bounded.svg"
TOKENS = ((1.0, 2.9), (3.1, 3.2), (2.2, 1.9), (0.9, 1.1), (3.4, 1.0))
MOVES = ((0.45, 0.2), (0.15, -0.4), (-0.35, 0.3), (0.35, -0.3), (-0.5, 0.1))
MASS = 260
INK, OLD, NEW, SLIVER, PROMISE = "#24292f", "#9aa4af", "#2f6fde", "#d1543f", "#2e8b57"


def main() -> None:
    """Three panels: the tokens moved, the tokens split, and the output of the layer."""
    mpl.rcParams |= {"svg.hashsalt": "robust_attn", "font.size": 11, "text.color": INK, "svg.fonttype": "path"}
    figure, panels = plt.subplots(1, 3, figsize=(11, 4.1))
    for panel, draw in zip(panels, (moved, split, bounded), strict=True):
        draw(panel)
        panel.set(xlim=(-0.2, 4.6), ylim=(-1.05, 4.1), aspect="equal")
        panel.axis("off")
    figure.subplots_adjust(left=0.01, right=0.99, bottom=0.01, top=0.92, wspace=0.04)
    figure.savefig(TARGET, facecolor="white", metadata={"Date": None})


def moved(panel: Axes) -> None:
    """Every token goes a little way; the budget limits the root mean square of the ways."""
    panel.set_title("move", fontweight="bold")
    for place, way in zip(TOKENS, MOVES, strict=True):
        atom(panel, place, OLD, MASS)
        atom(panel, shifted(place, way), NEW, MASS)
        arrow(panel, place, shifted(place, way), NEW)
    panel.text(0.95, 2.5, "before", color=OLD, ha="center")
    panel.text(1.75, 3.35, "after", color=NEW, ha="center")
    told(panel, "Tokens are points of equal mass.", "The budget limits how far all of them", "together go.")


def split(panel: Axes) -> None:
    """Tokens become copies that share their mass; a light one may go far in the same budget."""
    panel.set_title("split", fontweight="bold")
    for place, (across, up) in zip(TOKENS, MOVES, strict=True):
        atom(panel, place, OLD, MASS)
        if place == TOKENS[3]:
            continue
        for side in (1, -1):
            atom(panel, shifted(place, (side * across, side * up)), NEW, MASS / 2)
            arrow(panel, place, shifted(place, (side * across, side * up)), NEW)
    sliver = (4.45, 0.45)
    atom(panel, sliver, SLIVER, 14)
    arrow(panel, TOKENS[3], sliver, SLIVER)
    panel.text(2.2, 0.45, "a sliver", color=SLIVER, ha="center")
    told(
        panel,
        "Copies share the mass of a token.",
        "The lighter a copy is, the farther it goes",
        "in the same Wasserstein budget.",
    )


def bounded(panel: Axes) -> None:
    """What an attack reached lies inside what is certified; nothing is said of what the certificate does not cover."""
    panel.set_title("bound the output", fontweight="bold")
    centre, reached = (1.75, 2.1), (2.6, 2.85)
    panel.add_patch(Circle(centre, 1.6, facecolor=PROMISE, alpha=0.13, edgecolor="none"))
    panel.add_patch(Circle(centre, 1.6, facecolor="none", edgecolor=PROMISE, linewidth=1.6))
    atom(panel, centre, OLD, MASS)
    atom(panel, reached, NEW, MASS)
    arrow(panel, centre, reached, NEW)
    panel.text(1.75, 1.7, "output", ha="center", color=INK)
    panel.text(2.3, 3.1, "attack", color=NEW, ha="center")
    panel.text(1.75, 0.95, "certified for\nall moves", color=PROMISE, ha="center")
    atom(panel, (4.2, 3.3), SLIVER, MASS)
    panel.text(4.55, 3.62, "a sliver: not covered", color=SLIVER, ha="right")
    told(
        panel,
        "A certificate says what it covers.",
        "That of moves says nothing about slivers;",
        "that of all measures is far larger.",
    )


def atom(panel: Axes, place: tuple[float, float], colour: str, mass: float) -> None:
    """A token, or a piece of one, as large as its mass."""
    panel.scatter(*place, s=mass, color=colour, edgecolor="white", linewidth=1, zorder=3)


def arrow(panel: Axes, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
    """A way from one place to another."""
    style = {"arrowstyle": "-|>", "mutation_scale": 12, "shrinkA": 0, "shrinkB": 4, "zorder": 4}
    panel.add_patch(FancyArrowPatch(start, end, color=colour, linewidth=1.5, **style))


def shifted(place: tuple[float, float], way: tuple[float, float]) -> tuple[float, float]:
    """Where a way leads."""
    return place[0] + way[0], place[1] + way[1]


def told(panel: Axes, *lines: str) -> None:
    """The words below a panel."""
    panel.text(2.2, 0.1, "\n".join(lines), ha="center", va="top", fontsize=10.5, linespacing=1.3)


if __name__ == "__main__":
    main()

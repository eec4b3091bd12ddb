"""Layers and heads as a map: the stronger the colour, the more a head may amplify a change."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from robust_attn.report.certificates import CertificateRow
from robust_attn.report.chart import CERTIFIED, INK, Chart, Tips, canvas, house_style
from robust_attn.report.numerals import at_most, plain

if TYPE_CHECKING:
    import matplotlib.axes

MOST_LABELLED = 16
"""Heads of a layer up to which every cell carries its number."""
_LIGHTEST, _DARKEST = 0.06, 0.55  # opacities: ink stays readable on the darkest cell, in either theme


def heads_chart(rows: Sequence[CertificateRow], radius: float | None) -> Chart | None:
    """The certified gain of every head alone; nothing where fewer than two heads are certified."""
    heads = [row for row in rows if row.head is not None and row.layer is not None and (row.certified or 0.0) > 0]
    if len(heads) < 2:
        return None
    gains = {(row.layer or 0, row.head or 0): (row.certified or 0.0) / (radius or 1.0) for row in heads}
    layers = sorted({layer for layer, _ in gains})
    columns = sorted({head for _, head in gains})
    with house_style():
        figure, axes = canvas(height=1.1 + 0.34 * max(2, len(layers)))
        tips = Tips()
        _cells(axes, gains, tips, labelled=len(columns) <= MOST_LABELLED)
        axes.set_xlim(columns[0] - 0.5, columns[-1] + 0.5)
        axes.set_ylim(len(layers) - 0.5, -0.5)
        axes.set_xticks(columns)
        axes.set_yticks(range(len(layers)), [str(layer) for layer in layers])
        axes.grid(visible=False)
        for side in ("left", "bottom"):
            axes.spines[side].set_visible(False)
        axes.set(xlabel="head", ylabel="layer")
    what = "certified gain" if radius else "certified output change"
    per = f" per unit of a perturbation of size {plain(radius)}" if radius else ""
    caption = (
        f"How far the output of each head alone can move at most{per}, over all samples: the stronger the colour, the "
        "more. Hover over a cell for its number; the table of layers and heads has all of them."
    )
    highest = max(gains, key=lambda place: gains[place])
    lowest = min(gains, key=lambda place: gains[place])
    words = (
        f"{len(gains)} heads; largest {what} {at_most(gains[highest])} in layer {highest[0]}, head {highest[1]}; "
        f"smallest {at_most(gains[lowest])} in layer {lowest[0]}, head {lowest[1]}"
    )
    return Chart("heads", "Layers and heads", caption, words, figure, tips)


def _cells(axes: "matplotlib.axes.Axes", gains: dict[tuple[int, int], float], tips: Tips, *, labelled: bool) -> None:
    from matplotlib.patches import Rectangle

    rows = {layer: row for row, layer in enumerate(sorted({layer for layer, _ in gains}))}
    low, high = math.log(min(gains.values())), math.log(max(gains.values()))
    for (layer, head), gain in gains.items():
        depth = (math.log(gain) - low) / (high - low) if high > low else 0.5
        tip = tips.mark(f"layer {layer}, head {head}: at most {at_most(gain)}")
        corner = (head - 0.46, rows[layer] - 0.46)
        shade = _LIGHTEST + depth * (_DARKEST - _LIGHTEST)
        axes.add_patch(Rectangle(corner, 0.92, 0.92, facecolor=CERTIFIED, alpha=shade, edgecolor="none", gid=tip))
        if labelled:
            text = at_most(gain, 2)
            axes.text(head, rows[layer], text, ha="center", va="center", fontsize=8, color=INK, clip_on=True)

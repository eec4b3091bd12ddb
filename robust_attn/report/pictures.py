"""Drawings as files: PNG on white, and SVG that a page colours by its own theme."""

import html
import io
import re
from pathlib import Path

from robust_attn.report.drawing import Drawing, Tips
from robust_attn.report.style import VARIABLES, house_style
from robust_attn.views.panel import Panel


def png_file(drawing: Drawing, folder: Path) -> Path:
    """The drawing as a PNG on white, in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{drawing.panel.name}.png"
    with house_style():
        drawing.figure.savefig(path, format="png", dpi=144, facecolor="white", metadata={"Software": None})
    drawing.figure.set_layout_engine("none")  # its parts have their places by now; to look for them takes as long
    return path


def svg_text(drawing: Drawing) -> str:
    """The drawing as an SVG element to put into a page, coloured by the page's own variables."""
    buffer = io.StringIO()
    with house_style():
        empty = {"Date": None, "Creator": None, "Format": None, "Type": None}
        drawing.figure.savefig(buffer, format="svg", transparent=True, metadata=empty)
    svg = buffer.getvalue()
    svg = _with_tips(svg[svg.index("<svg") :], drawing.tips)
    return _with_label(_with_variables(_with_unique_ids(svg, drawing.panel.name)), drawing.panel)


def _with_tips(svg: str, tips: Tips) -> str:
    for name, text in tips.texts.items():
        svg = svg.replace(f'<g id="{name}">', f'<g id="{name}" class="mark"><title>{html.escape(text)}</title>', 1)
    return svg


def _with_unique_ids(svg: str, prefix: str) -> str:
    """Several SVG elements share one page, where an id may occur once."""
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    return svg.replace('href="#', f'href="#{prefix}-').replace("url(#", f"url(#{prefix}-")


def _with_variables(svg: str) -> str:
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family: [^;\"]*;? ?", "", svg)  # the page has one
    return re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", svg)


def _with_label(svg: str, panel: Panel) -> str:
    """Sized by the page instead of in points, and named for screen readers; namespaces are implied in HTML."""
    head, body = svg.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', head)
    label = html.escape(f"{panel.title}. {panel.words}", quote=True)
    return f'<svg {box.group() if box else ""} role="img" aria-label="{label}">{body.replace("xlink:href", "href")}'

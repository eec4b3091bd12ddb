"""report.html: one page for a run or for many, made of a view and of what is known about the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from robust_attn.report.drawing import Drawing
from robust_attn.report.page import rendered, trusted
from robust_attn.report.pictures import svg_text
from robust_attn.views.view import View


@dataclass(frozen=True)
class Note:
    """What must be read before anything else; an urgent one says that something is missing."""

    label: str
    text: str
    urgent: bool = False


@dataclass(frozen=True)
class About:
    """What stands around a view: where it comes from, and how to have it again."""

    title: str
    subtitle: str = ""
    notes: tuple[Note, ...] = ()
    command: str = ""
    commit: str = ""
    folder: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


def html_text(view: View, about: About, drawings: Sequence[Drawing] = ()) -> str:
    """The page."""
    figures = [(drawing.panel, trusted(svg_text(drawing))) for drawing in drawings]
    named = {"title": about.title, "subtitle": about.subtitle}
    return rendered("report.html.j2", {**named, "about": about, "view": view, "figures": figures})

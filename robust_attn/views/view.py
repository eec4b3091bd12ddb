"""What a run amounts to, for a person: the statement first, then what it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from robust_attn.views.panel import Panel
from robust_attn.views.table import Table


class Tone(StrEnum):
    """The colour of a headline."""

    HOLDS = "holds"
    VIOLATED = "violated"
    VACUOUS = "vacuous"
    UNKNOWN = "unknown"
    MEASURED = "measured"
    FLIPPED = "flipped"


@dataclass(frozen=True)
class Headline:
    """The verdict on a whole run: a tone for the eye, a title, and what it rests on."""

    tone: Tone
    title: str
    detail: str


@dataclass(frozen=True)
class Statement:
    """The first thing a report says: a verdict, what is promised, how surely, and what is not promised."""

    headline: Headline
    promises: tuple[str, ...] = ()
    confidence: str = ""
    limits: str = ""


@dataclass(frozen=True)
class Tile:
    """One number of the summary, with what it means."""

    label: str
    number: str
    meaning: str


@dataclass(frozen=True)
class View:
    """Everything that is said about the records of one task; `terms` explains the words that it uses."""

    statement: Statement
    tiles: tuple[Tile, ...] = ()
    tables: tuple[Table, ...] = ()
    panels: tuple[Panel, ...] = ()
    terms: tuple[tuple[str, str], ...] = ()

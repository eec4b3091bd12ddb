"""What a run amounts to, for a person: the statement first, then what it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar

from robust_attn.types import Verdict
from robust_attn.views.panel import Panel
from robust_attn.views.passages import Passages
from robust_attn.views.table import Table

Thing = TypeVar("Thing")


class Tone(StrEnum):
    """The colour of a headline."""

    HOLDS = "holds"
    VIOLATED = "violated"
    VACUOUS = "vacuous"
    UNKNOWN = "unknown"
    MEASURED = "measured"
    FLIPPED = "flipped"

    @classmethod
    def of(cls, verdict: Verdict) -> Tone:
        """The tone of a verdict."""
        return cls(verdict.value.lower())


@dataclass(frozen=True)
class Headline:
    """The verdict on a whole run: a tone for the eye, a title, and what it rests on."""

    tone: Tone
    title: str
    detail: str


@dataclass(frozen=True)
class Statement:
    """The first thing a report says: a verdict, what is promised, how surely, and what is not promised.

    `tested` says what was looked at, `scale` how large it is, so that the numbers of the promise mean something.
    """

    headline: Headline
    promises: tuple[str, ...] = ()
    confidence: str = ""
    limits: str = ""
    tested: str = ""
    scale: str = ""

    @property
    def aspects(self) -> tuple[tuple[str, str], ...]:
        """What is said beside verdict and promise, each under a title of its own."""
        known = (
            ("Tested", self.tested),
            ("For scale", self.scale),
            ("How sure", self.confidence),
            ("Not promised", self.limits),
        )
        return tuple((title, said) for title, said in known if said)


@dataclass(frozen=True)
class Tile:
    """One number of the summary, with what it means."""

    label: str
    number: str
    meaning: str


@dataclass(frozen=True)
class View:
    """Everything that is said about the records of one task; `terms` explains the words that it uses.

    `question` is what the run asks, `details` are tables for those who look closer, after the figures. `files` are
    comma-separated values that go beside the report, by the names of their files; so many panels as `leading` says
    stand before the tables.
    """

    statement: Statement
    tiles: tuple[Tile, ...] = ()
    tables: tuple[Table, ...] = ()
    panels: tuple[Panel, ...] = ()
    terms: tuple[tuple[str, str], ...] = ()
    passages: Passages | None = None
    details: tuple[Table, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    leading: int = 0
    question: str = "how far can its attention be pushed?"

    @property
    def every_table(self) -> tuple[Table, ...]:
        """Tables and details, in the order in which they are shown."""
        return (*self.tables, *self.details)


def present(*things: Thing | None) -> tuple[Thing, ...]:
    """Those that are there."""
    return tuple(thing for thing in things if thing is not None)


def nothing_view() -> View:
    """A run without a readable record."""
    headline = Headline(Tone.UNKNOWN, "Nothing was measured", "There is no readable record, so nothing is promised.")
    return View(Statement(headline, limits="Anything."))


def merged(views: Sequence[View]) -> View:
    """Views of several kinds of records as one: a broken promise heads it, else the first."""
    if not views:
        return nothing_view()
    broken = [view for view in views if view.statement.headline.tone is Tone.VIOLATED]
    first = (broken or list(views))[0]
    return replace(
        first,
        statement=replace(first.statement, promises=tuple(said for view in views for said in view.statement.promises)),
        tiles=tuple(tile for view in views for tile in view.tiles),
        tables=tuple(table for view in views for table in view.tables),
        panels=tuple(panel for view in views for panel in view.panels),
        terms=tuple(dict(term for view in views for term in view.terms).items()),
        passages=next((view.passages for view in views if view.passages), None),
        details=tuple(table for view in views for table in view.details),
        files={name: text for view in views for name, text in view.files.items()},
    )

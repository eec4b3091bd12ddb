"""What a person sees on a screen: tables narrow enough for it where they can be, and messages."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import textwrap
from collections.abc import Iterator
from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.highlighter import NullHighlighter
from rich.markup import escape
from rich.table import Table as RichTable

from robust_attn.records.kinds import Check, Record
from robust_attn.types import Verdict
from robust_attn.views.numerals import at_least, at_most
from robust_attn.views.table import Cell, Table, narrowed
from robust_attn.views.view import View
from robust_attn.views.words import place_of

COLOURS = {Verdict.HOLDS: "green", Verdict.VACUOUS: "yellow", Verdict.UNKNOWN: "magenta", Verdict.VIOLATED: "bold red"}
WIDTH = 140
ROWS_SHOWN = 200
"""Rows of a table that a screen shows; the report has more."""


def console() -> Console:
    """Standard output; wide enough for most tables where it is not a terminal with a width of its own."""
    return Console() if sys.stdout.isatty() else Console(width=WIDTH)


@contextlib.contextmanager
def told_at_once(job: int) -> Iterator[Console]:
    """A screen for one of several jobs that share a terminal: what it says comes in one piece when the job ends.

    It draws no bars, which would wipe out the lines of the others.
    """
    kept = Console(file=io.StringIO(), width=console().width)
    try:
        yield kept
    finally:
        assert isinstance(kept.file, io.StringIO)
        sys.stdout.write(f"job {job} has ended:\n{kept.file.getvalue()}")
        sys.stdout.flush()


@contextlib.contextmanager
def debug_messages(screen: Console) -> Iterator[None]:
    """Show what this package logs, one line a record, above the bars if there are any."""
    from rich.logging import RichHandler

    logger = logging.getLogger("robust_attn")
    handler = RichHandler(
        console=screen, show_path=False, show_level=False, show_time=False, markup=False, highlighter=NullHighlighter()
    )
    level = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def record_line(record: Record) -> str:
    """One record in one line: what it is about, what was observed, what is certified, and the verdict."""
    said = [f"{place_of(record)}, tokens {record.tokens}:"]
    if isinstance(record, Check):
        observed, certified = record.observed.output_change, record.certified
        said += [f"output moved {at_least(observed, 4)}"] if observed is not None else []
        said += [f"at most {at_most(certified.output_change, 4)} by {certified.bound}"] if certified.bound else []
    return " ".join([*said, *([record.stated.value] if record.stated else [])])


def print_view(view: View, screen: Console) -> None:
    """The headline of a run, and those of its tables that are meant for a screen."""
    headline = view.statement.headline
    screen.print(f"{headline.title}. {headline.detail}", markup=False, highlight=False)
    for table in view.every_table:
        if table.terminal:
            screen.print(rich_table(table, screen.width))


def rich_table(table: Table, width: int) -> RichTable:
    """The table with as many columns as fit into `width` characters; needed ones stand more densely if they must."""
    made = _made(table, gap=1)
    if Console(width=10_000).measure(made).maximum <= width:
        return made
    narrower = narrowed(table)
    return _made(table, gap=0) if narrower is None else rich_table(narrower, width)


def _made(table: Table, *, gap: int) -> RichTable:
    left_out = table.left_out + max(0, len(table.rows) - ROWS_SHOWN)
    caption = f"{left_out} more in the report and its records" if left_out else None
    made = RichTable(
        title=escape(table.title),
        title_justify="left",
        caption=caption,
        caption_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=(0, gap, 0, 0),
    )
    for place, column in enumerate(table.columns):
        widest = max((len(row[place].shown) for row in table.rows[:ROWS_SHOWN]), default=0)
        justify: Literal["left", "right"] = "left" if column.align == "left" else "right"
        made.add_column(escape(_wrapped(column.title, widest)), justify=justify, overflow="fold")
    for row in table.rows[:ROWS_SHOWN]:
        made.add_row(*map(_shown, row))
    return made


def _wrapped(title: str, widest: int) -> str:
    """A title in as few lines as the width of its column has room for; no word is cut, nor `n = 4` taken apart."""
    joined = title.replace(" = ", "\u00a0=\u00a0")
    longest = max(map(len, joined.split(" ")))
    return "\n".join(textwrap.wrap(joined, max(widest, longest), break_long_words=False))


def _shown(cell: Cell) -> str:
    return escape(cell.shown) if cell.verdict is None else f"[{COLOURS[cell.verdict]}]{escape(cell.shown)}[/]"

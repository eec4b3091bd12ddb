"""report.md: the same view for repositories and pull requests."""

from __future__ import annotations

import re
from collections.abc import Sequence

from robust_attn.views.numerals import at_least
from robust_attn.views.panel import Panel
from robust_attn.views.passages import Passages
from robust_attn.views.table import Table
from robust_attn.views.view import View

ROWS_LISTED = 200


def markdown_text(view: View, notes: Sequence[str] = (), figures: Sequence[Panel] = (), command: str = "") -> str:
    """The view as GitHub-flavoured Markdown; `figures` are the panels whose drawings lie in figures/."""
    statement = view.statement
    parts = [
        f"# {escaped(statement.headline.title)}",
        *(f"> **{escaped(note)}**" for note in notes),
        escaped(statement.headline.detail),
        *(escaped(promise) for promise in statement.promises),
        *(f"**{title}.** {escaped(said)}" for title, said in statement.aspects),
        *(markdown_table(table) for table in view.tables),
        _passages(view.passages) if view.passages else "",
        *(f"![{escaped(panel.title)}](figures/{panel.name}.png)" for panel in figures),
        *(markdown_table(table) for table in view.details),
        f"Repeat it:\n\n{fenced(command)}" if command else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def markdown_table(table: Table) -> str:
    """A table under its title; cells are escaped here."""
    shown = table.rows[:ROWS_LISTED]
    left_out = table.left_out + len(table.rows) - len(shown)
    head = [escaped(column.title) for column in table.columns]
    rule = ["---" if column.align == "left" else "---:" for column in table.columns]
    lines = [head, rule, *([escaped(cell.shown) for cell in row] for row in shown)]
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    rest = f"\n\n{left_out} further rows are left out here." if left_out else ""
    return f"## {escaped(table.title)}\n\n{body}{rest}"


def escaped(text: str) -> str:
    """Text that Markdown and HTML leave as it is."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#])", r"\\\1", " ".join(text.split()))


def fenced(code: str) -> str:
    """A code block whose fence is longer than any run of backticks inside it."""
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}sh\n{code}\n{fence}"


def _passages(passages: Passages) -> str:
    """The tokens that moved most, a line per layer and sample shown."""
    lines = ["Tokens that moved most, by how much:\n"]
    for passage in passages.every:
        moved = [f"{escaped(token.text)} {at_least(token.rms)} {token.mark}".strip() for token in passage.most]
        layer = "" if passages.whole else f"layer {passage.layer}, "
        lines.append(f"* {layer}{passage.named}: {', '.join(moved) or '—'}")
    return "\n".join(lines)

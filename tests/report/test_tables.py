"""Laws of tables in every renderer: nothing is lost, everything is escaped, columns stand on their side."""

import io
import re

import pytest
from rich.console import Console

from robust_attn.report.asked import view_of
from robust_attn.report.html import About, html_text
from robust_attn.report.markdown import escaped, markdown_table
from robust_attn.report.terminal import rich_table
from robust_attn.types import Verdict
from robust_attn.views.table import Align, Cell, Column, Table
from robust_attn.views.view import Headline, Statement, Tone, View
from tests.views.runs import KINDS, run_of

from .pages import EVIL, Page

ODD = Table(
    "odd",
    "[bold]|odd| <b>",
    (Column("left|", Align.LEFT), Column("[red]right", meaning='a "meaning"'), Column("verdict", Align.LEFT)),
    [
        (Cell(EVIL, link="a/b.html"), Cell("1.5·10³", 1500.0), Cell("VIOLATED", verdict=Verdict.VIOLATED)),
        (Cell("a|b *c* `d` [red]e[/red]"), Cell("unknown"), Cell("2 HOLDS", verdict=Verdict.HOLDS)),
    ],
    left_out=3,
    rest="records.jsonl",
)
TABLES = {"odd": ODD} | {
    f"{kind} {table.name}": table for kind, records in KINDS.items() for table in view_of(run_of(*records)).every_table
}


@pytest.fixture(params=TABLES)
def table(request) -> Table:
    return TABLES[request.param]


def shown(table: Table) -> list[list[str]]:
    return [[" ".join(cell.shown.split()) for cell in row] for row in table.rows]


def page(table: Table) -> Page:
    statement = Statement(Headline(Tone.HOLDS, "title", "detail"))
    return Page(html_text(View(statement, tables=(table,)), About("title")))


def test_a_page_has_every_cell_with_the_number_that_it_is_sorted_by(table):
    head, *rows = page(table).tables[table.name]
    assert [text for text, _ in head] == [column.title for column in table.columns]
    assert [[" ".join(text.split()) for text, _ in row] for row in rows] == shown(table)
    for cells, row in zip(table.rows, rows, strict=True):
        for cell, column, (_, value) in zip(cells, table.columns, row, strict=True):
            if cell.value is not None:
                assert float(value) == cell.value
            else:
                assert value == ("" if column.align is Align.RIGHT else None)


def test_a_page_takes_no_cell_for_markup(table):
    found = page(table)
    assert found.tags.count("script") == 1
    assert "img" not in found.tags
    assert found.handlers == []


def test_markdown_has_every_cell_and_as_many_columns_in_every_line(table):
    title, *lines = [line for line in markdown_table(table).splitlines() if line]
    assert title == f"## {escaped(table.title)}"
    grid = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines if line.startswith("|")]
    assert {len(row) for row in grid} == {len(table.columns)}
    assert [cell.strip().endswith(":") for cell in grid[1]] == [c.align is Align.RIGHT for c in table.columns]
    assert [[cell.strip() for cell in row] for row in grid[2:]] == [
        [escaped(cell) for cell in row] for row in shown(table)
    ]
    assert "<" not in markdown_table(table)


def test_a_wide_screen_has_every_cell_and_the_right_side_for_each(table):
    made = rich_table(table, 10_000)
    assert len(made.columns) == len(table.columns)
    assert [column.justify == "right" for column in made.columns] == [c.align is Align.RIGHT for c in table.columns]
    screen = Console(width=2_000, record=True, file=io.StringIO())
    screen.print(made)
    text = " ".join(screen.export_text().split())
    for row in shown(table):
        assert all(cell in text for cell in row)


def test_a_narrow_screen_keeps_what_is_not_optional():
    for table in TABLES.values():
        kept = [
            str(column.header).replace("\n", " ").replace("\u00a0", " ") for column in rich_table(table, 80).columns
        ]
        needed = [column.title for column in table.columns if not column.optional]
        assert [title for title in needed if title.replace("[", "\\[") not in kept and title not in kept] == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_tables_that_close_a_run_fit_on_80_columns(kind):
    for table in view_of(run_of(*KINDS[kind])).every_table:
        if table.terminal:
            screen = Console(width=80, record=True, file=io.StringIO())
            screen.print(rich_table(table, 80))
            text = screen.export_text()
            assert max(map(len, text.splitlines())) <= 80
            said = [cell.shown for row in table.rows for cell in row if cell.verdict is not None]
            assert all(word in text for word in said)  # no verdict is cut into pieces


def test_what_is_left_out_is_counted_everywhere():
    for words in ("2 of 5 rows are shown", "3 are not; all of them are in records.jsonl beside"):
        assert words in page(ODD).text
    assert "3 further rows are left out here." in markdown_table(ODD)
    assert rich_table(ODD, 200).caption == "3 more in the report and its records"
    assert "records.jsonl" in page(ODD).addresses


def test_verdicts_are_coloured_and_links_lead_on():
    assert "a/b.html" in page(ODD).addresses
    cells = list(rich_table(ODD, 200).columns[2].cells)
    assert cells == ["[bold red]VIOLATED[/]", "[green]2 HOLDS[/]"]

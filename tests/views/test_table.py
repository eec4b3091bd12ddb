"""Cells, and columns that are left out where they say nothing or have no room."""

from robust_attn.types import Verdict
from robust_attn.views.numerals import at_most
from robust_attn.views.table import (
    LARGEST,
    badge,
    between,
    counts,
    maybe,
    narrowed,
    number,
    perhaps,
    table_of,
    text,
    texts,
)

FIELDS = (
    counts("a", lambda item: item),
    perhaps("b", lambda _: None, optional=True),
    texts("c", lambda item: "x" if item == 1 else None, optional=True),
    texts("d", lambda _: None),
)


def test_a_number_says_that_it_is_unknown_and_an_optional_one_nothing():
    assert (number(None).shown, maybe(None).shown, text("").shown) == ("unknown", "—", "—")
    assert (number(0.12345, at_most).shown, number(0.12345, at_most).value) == ("0.124", 0.12345)
    assert number(float("inf"), lambda _: "any").value == LARGEST


def test_both_sides_are_rounded_away_from_each_other():
    assert between(1.2345, 1.2345).shown == "1.23 to 1.24"
    assert between(None, 3.0).shown == "—"


def test_a_verdict_is_a_cell_with_one():
    assert badge(Verdict.HOLDS).verdict is Verdict.HOLDS
    assert badge(None).shown == "—"


def test_columns_without_a_word_go_and_so_do_optional_ones_without_room():
    table = table_of("name", "title", FIELDS, [1, 2])
    assert [column.title for column in table.columns] == ["a", "c", "d"]
    assert [[cell.shown for cell in row] for row in table.rows] == [["1", "x", "—"], ["2", "—", "—"]]
    assert [column.title for column in narrowed(table).columns] == ["a", "d"]
    assert narrowed(narrowed(table)) is None


def test_rows_beyond_the_limit_are_counted():
    table = table_of("name", "title", FIELDS, range(7), limit=4)
    assert (len(table.rows), table.left_out, table.rest) == (4, 3, "records.jsonl")
    assert table_of("name", "title", FIELDS, [1], total=9).left_out == 8

import math

import pytest

from robust_attn.report.generic import COLUMNS_SHOWN, LINES_SHOWN, cell_of, generic_tables, leaves


def test_what_all_records_share_is_said_once() -> None:
    lines = [{"task": "a", "model": "toy", "gain": gain, "released": {"exponent": gain / 2}} for gain in (1.0, 2.0)]
    (table,) = generic_tables(lines)
    assert table.shared == {"model": "toy"}
    assert table.columns == ("gain", "released.exponent")
    assert [[cell.shown for cell in line] for line in table.lines] == [["1", "0.5"], ["2", "1"]]


def test_a_single_record_keeps_all_its_columns() -> None:
    (table,) = generic_tables([{"task": "a", "model": "toy"}])
    assert (table.shared, table.columns) == ({}, ("model",))


def test_every_task_has_a_table_of_its_own() -> None:
    tables = generic_tables([{"task": "b", "x": 1}, {"y": 2}, {"task": "b", "x": 3}])
    assert [(table.task, table.records) for table in tables] == [("b", 2), ("no task named", 1)]


def test_many_records_and_fields_are_cut_and_said_to_be() -> None:
    lines = [{f"f{field}": field * line for field in range(1, 40)} for line in range(LINES_SHOWN + 5)]
    (table,) = generic_tables(lines)
    assert (table.records, len(table.lines)) == (LINES_SHOWN + 5, LINES_SHOWN)
    assert len(table.columns) == COLUMNS_SHOWN
    assert len(table.left_out) == 39 - COLUMNS_SHOWN


@pytest.mark.parametrize(
    ("value", "shown", "number"),
    [
        (None, "—", None),
        ([], "—", None),
        (True, "yes", None),
        (3, "3", 3.0),
        (0.123456789, "0.12346", 0.123456789),
        (math.nan, "unknown", None),
        ([1, 2.5], "1, 2.5", None),
        ([{"name": "a"}, {}], "2 entries", None),
        ("x" * 200, "x" * 79 + "…", None),
    ],
)
def test_values_in_a_few_characters(value: object, shown: str, number: float | None) -> None:
    cell = cell_of(value)
    assert (cell.shown, cell.value) == (shown, number)


def test_long_fields_are_dropped_at_the_top_only() -> None:
    assert leaves({"schema": 1, "convergence": [1], "a": {"text": "kept"}, "b": {}}) == {"a.text": "kept", "b": {}}

from __future__ import annotations

import pytest

from robust_attn.data.rows import Row, class_of, rows_of, taken
from robust_attn.types import UserError


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("id,text,label\na,first text,0\nb,second text,spam\nc,third text, 2 \n")
    return path


def test_rows_have_numbers_texts_and_labels(table):
    assert list(rows_of(table, "text", "label")) == [
        Row(0, "first text", 0),
        Row(1, "second text", "spam"),
        Row(2, "third text", 2),
    ]
    assert list(rows_of(str(table), "id")) == [Row(0, "a"), Row(1, "b"), Row(2, "c")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": " ", "label": 1}', "line 2: column 'text' is empty"),
        ('{"text": 3, "label": 1}', "line 2: column 'text' must hold text, got 3"),
        ('{"text": null, "label": 1}', "line 2: column 'text' must hold text, got None"),
        ('{"text": "b", "label": ""}', "line 2: column 'label' must hold a label"),
        ('{"text": "b", "label": null}', "line 2: column 'label' must hold a label"),
        ('{"text": "b", "label": 0.5}', r"line 2: column 'label' must hold a label.* got 0\.5"),
        ('{"text": "b", "label": NaN}', "line 2: column 'label' must hold a label"),
    ],
)
def test_cells_that_hold_something_else_are_told_with_their_line(line, message, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a", "label": 0}\n' + line)
    with pytest.raises(UserError, match=message):
        list(rows_of(path, "text", "label"))


@pytest.mark.parametrize(("written", "label"), [("true", 1), ("1.0", 1), ("-1", -1), ('"07"', 7), ('" no "', "no")])
def test_labels_are_whole_numbers_or_names(written, label, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"text": "a", "label": {written}}}')
    (row,) = rows_of(path, "text", "label")
    assert row.label == label
    assert type(row.label) is type(label)


def test_as_many_rows_are_taken_as_were_asked_for(table):
    assert [row.index for row in taken(rows_of(table, "text"), 2, called="it")] == [0, 1]
    assert [row.index for row in taken(rows_of(table, "text"), 2, called="it", first=1)] == [1, 2]
    with pytest.raises(UserError, match="it has 3 rows, but 4 samples were asked for"):
        taken(rows_of(table, "text"), 4, called="it")
    with pytest.raises(UserError, match="it has 1 rows from row 2 on, but 2 samples were asked for"):
        taken(rows_of(table, "text"), 2, called="it", first=2)
    with pytest.raises(UserError, match="at least 1"):
        taken(rows_of(table, "text"), 0, called="it")


def test_labels_are_matched_with_the_models_names_of_its_classes():
    names = {0: "LEGIT", 1: "INJECTION", 2: "it", 3: "IT"}
    assert [class_of(label, names) for label in ("injection", "LEGIT", "It", "IT", "other", 7, None)] == [
        *(1, 0),
        *("It", 3),  # two names differ by capital letters alone
        *("other", 7, None),
    ]
    assert class_of("injection", None) == "injection"

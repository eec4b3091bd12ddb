from __future__ import annotations

import json
import sys

import pytest

from robust_attn.data.tables import Line, lines_of
from robust_attn.types import UserError

SAID = ["plain", 'with "quotes", and a comma', "two\nlines", "naïve 你好"]


def _csv(path):
    path.write_text(
        '\ufefftext,label\nplain,0\n"with ""quotes"", and a comma",1\n\n"two\nlines",0\nnaïve 你好,1\n', "utf-8"
    )


def _tsv(path):
    path.write_text(
        'label\ttext\r\n0\tplain\r\n1\t"with ""quotes"", and a comma"\r\n\r\n0\t"two\nlines"\r\n1\tnaïve 你好', "utf-8"
    )


def _jsonl(path):
    lines = [json.dumps({"text": text, "label": number % 2, "more": [1]}) for number, text in enumerate(SAID)]
    path.write_text("\n".join([*lines[:2], "", *lines[2:], ""]), "utf-8")


def _parquet(path):
    table, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(table.table({"text": SAID, "label": [0, 1, 0, 1], "more": [1.0] * 4}), path)


def _saved(path):
    pytest.importorskip("datasets").Dataset.from_dict({"text": SAID, "label": [0, 1, 0, 1]}).save_to_disk(path)


@pytest.mark.parametrize(
    ("name", "write", "places"),
    [
        ("rows.csv", _csv, ["line 2", "line 3", "line 5", "line 7"]),
        ("rows.TSV", _tsv, ["line 2", "line 3", "line 5", "line 7"]),
        ("rows.jsonl", _jsonl, ["line 1", "line 2", "line 4", "line 5"]),
        ("rows.parquet", _parquet, ["row 0", "row 1", "row 2", "row 3"]),
        ("saved", _saved, ["row 0", "row 1", "row 2", "row 3"]),
    ],
)
def test_every_format_has_the_same_cells_and_says_where_they_stand(name, write, places, tmp_path):
    write(tmp_path / name)
    found = list(lines_of(tmp_path / name, ["text", "label"]))
    assert [line.place for line in found] == places
    assert [line.cells["text"] for line in found] == SAID
    assert [int(line.cells["label"]) for line in found] == [0, 1, 0, 1]
    with pytest.raises(UserError, match=r"has no column 'absent'; its columns are (text|label), "):
        list(lines_of(tmp_path / name, ["absent"]))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", r"a\.csv is empty: expected rows with the columns text"),
        ("a.csv", b"text,label\none,0\ntwo\n", r"a\.csv, line 3: expected 2 cells as in the header, got 1"),
        ("a.csv", b'text,label\n"two\nlines",0\none,two,three\n', r"line 4: expected 2 cells as in the header, got 3"),
        ("a.csv", b'text,label\none,0\n"open,1\n', r"a\.csv, line 3: cannot be read"),
        ("a.csv", b"text,text\none,0\n", r"has 2 columns called 'text'"),
        ("a.csv", b"text\n\xff\n", r"a\.csv is not UTF-8 text"),
        ("a.jsonl", b'{"text": "one"}\n{"text": \n', r"a\.jsonl, line 2: is not JSON"),
        (
            "a.jsonl",
            b'{"text": "one"}\n["two"]\n',
            r'line 2: expected a JSON object with the columns as names, got \["two"\]',
        ),
        (
            "a.jsonl",
            b'{"text": "one"}\n\n{"label": 1}\n',
            r"a\.jsonl, line 3, has no column 'text'; its columns are label",
        ),
        ("a.jsonl", b"\xff", r"a\.jsonl is not UTF-8 text"),
        ("a.xlsx", b"", r"a\.xlsx is not a table that can be read: expected a file that ends in \.csv, \.tsv, "),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message) as told:
        list(lines_of(tmp_path / name, ["text"]))
    assert "\n" not in str(told.value)


def test_paths_that_lead_nowhere_are_refused(tmp_path):
    with pytest.raises(UserError, match="there is no file"):
        list(lines_of(tmp_path / "absent.csv", ["text"]))
    with pytest.raises(UserError, match=r"not one that save_to_disk of datasets wrote: no dataset_info\.json"):
        list(lines_of(tmp_path, ["text"]))


def test_a_data_set_with_splits_asks_for_one_of_them(tmp_path):
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(UserError, match=r"name one of them: data\.path=.*/train, data\.path=.*/test"):
        list(lines_of(tmp_path, ["text"]))


@pytest.mark.parametrize(
    ("module", "name", "extra"), [("pyarrow.parquet", "a.parquet", "rows"), ("datasets", "saved", "hub")]
)
def test_without_an_optional_package_the_message_says_how_to_get_it(module, name, extra, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    place = tmp_path / name
    if place.suffix:
        place.write_bytes(b"")
    else:
        place.mkdir()
        (place / "dataset_info.json").write_text("{}")
    with pytest.raises(UserError, match=rf"pip install 'robust_attn\[{extra}\]'"):
        list(lines_of(place, ["text"]))


def test_damaged_parquet_is_one_sentence(tmp_path):
    pytest.importorskip("pyarrow.parquet")
    (tmp_path / "a.parquet").write_bytes(b"no parquet at all")
    with pytest.raises(UserError, match=r"a\.parquet cannot be read as Parquet"):
        list(lines_of(tmp_path / "a.parquet", ["text"]))


def test_lines_are_read_as_they_are_asked_for(tmp_path):
    (tmp_path / "a.csv").write_text("text\nfirst\nsecond,too many cells\n")
    assert next(lines_of(tmp_path / "a.csv", ["text"])) == Line("line 2", {"text": "first"})

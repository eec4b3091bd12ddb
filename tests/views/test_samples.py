from __future__ import annotations

from dataclasses import replace

from robust_attn.views.samples import sample_fields, sample_number
from robust_attn.views.table import table_of
from tests.records.samples import attack_record


def _table(records):
    table = table_of("name", "title", sample_fields(records), records)
    return [column.title for column in table.columns], [[cell.shown for cell in row] for row in table.rows]


def test_samples_go_by_their_numbers_where_there_are_no_rows():
    assert _table([attack_record(0), replace(attack_record(0), sample=5)])[0] == ["Sample"]


def test_rows_go_by_their_numbers_with_labels_and_what_was_cut():
    records = [replace(attack_record(0), row=7, label="spam", cut=3), replace(attack_record(0), row=9, label=0, cut=0)]
    assert _table(records) == (["Row", "Label", "Tokens cut"], [["7", "spam", "3"], ["9", "0", "—"]])
    assert [record.named for record in records] == ["row 7", "row 9"]
    assert _table([replace(attack_record(0), row=7)]) == (["Row"], [["7"]])


def test_a_number_alone_says_of_what_it_is():
    records = [attack_record(0), replace(attack_record(0), row=7)]
    for some, title, number in ((records[:1], "Worst sample", "0"), (records, "Worst row", "7")):
        field = sample_number(some, lambda record: record, "Worst {}")
        assert (field.column.title, field.cell(some[-1]).shown) == (title, number)

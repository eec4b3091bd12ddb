from __future__ import annotations

from dataclasses import replace

from robust_attn.views.samples import sample_fields
from robust_attn.views.table import table_of
from tests.records.samples import attack_record


def _table(records):
    table = table_of("name", "title", sample_fields(records, lambda record: record, "Worst {}"), records)
    return [column.title for column in table.columns], [[cell.shown for cell in row] for row in table.rows]


def test_samples_go_by_their_numbers_where_there_are_no_rows():
    assert _table([attack_record(0), replace(attack_record(0), sample=5)])[0] == ["Worst sample"]


def test_rows_go_by_their_numbers_with_labels_and_what_was_cut():
    records = [replace(attack_record(0), row=7, label="spam", cut=3), replace(attack_record(0), row=9, label=0, cut=0)]
    assert _table(records) == (["Worst row", "Label", "Tokens cut"], [["7", "spam", "3"], ["9", "0", "—"]])
    assert [record.named for record in records] == ["row 7", "row 9"]
    assert _table([replace(attack_record(0), row=7)]) == (["Worst row"], [["7"]])

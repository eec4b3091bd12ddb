import pytest

from robust_attn.report.rows import by_layer, covering, row_of, rows_of, shown_first, verdict_counts, worst_verdict
from robust_attn.types import Verdict

from .sample_runs import record, records

NOTHING = {"bound": None, "output_change": None, "failure_probability": None}


@pytest.mark.parametrize("said", ["HOLDS", "VACUOUS", "UNKNOWN", "holds", None, 3])
def test_nothing_holds_without_a_certified_number(said: object) -> None:
    assert row_of(record(certified=NOTHING, verdict=said)).verdict is Verdict.UNKNOWN


def test_a_violation_is_never_softened() -> None:
    assert row_of(record(certified=NOTHING, verdict="VIOLATED")).verdict is Verdict.VIOLATED


def test_an_empty_record_is_a_row_of_unknowns() -> None:
    row = row_of({})
    assert (row.layer, row.gain, row.certified, row.verdict) == (None, None, None, Verdict.UNKNOWN)


def test_a_layer_is_its_worst_sample() -> None:
    rows = rows_of(records(2, 3))
    first = by_layer(rows)[0]
    assert first.certified == max(row.certified for row in rows if row.layer == 0)
    assert first.gain == max(row.gain for row in rows if row.layer == 0)
    assert first.samples == 3


def test_one_unknown_promise_leaves_its_layer_without_one() -> None:
    rows = rows_of([record(0, 0), record(0, 1, certified=NOTHING), record(1, 0)])
    assert [layer.certified is None for layer in by_layer(rows)] == [True, False]
    assert covering(rows) is None


def test_the_worst_verdict_decides() -> None:
    assert worst_verdict([Verdict.HOLDS, Verdict.VIOLATED, Verdict.UNKNOWN]) is Verdict.VIOLATED
    assert worst_verdict([]) is Verdict.UNKNOWN
    assert verdict_counts(rows_of(records(1, 2)))[Verdict.HOLDS] == 2


def test_rows_that_ask_for_attention_are_shown_first() -> None:
    rows = rows_of([*records(2, 4), record(5, 0, verdict="VIOLATED"), record(6, 0, certified=NOTHING)])
    shown = shown_first(rows, 3)
    assert {row.layer for row in shown} >= {5, 6}
    assert len(shown) == 3


def test_what_a_head_promises_is_not_taken_for_its_layer() -> None:
    rows = rows_of([record(0, 0), record(0, 0, head=3, certified={"bound": "hull", "output_change": 99.0})])
    (layer,) = by_layer(rows)
    assert layer.certified == rows[0].certified

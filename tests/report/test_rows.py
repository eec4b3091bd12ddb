import pytest

from robust_attn.report.rows import (
    by_layer,
    covering,
    place_of,
    ranks_in_layer,
    row_of,
    rows_of,
    shown_first,
    verdict_counts,
    worst_verdict,
)
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


def test_a_layer_promises_for_all_samples_and_shows_the_one_nearest_to_its_promise() -> None:
    rows = rows_of([record(0, sample, tightness=tightness) for sample, tightness in enumerate((0.2, 0.9, 0.5))])
    (layer,) = by_layer(rows)
    assert layer.worst is rows[1]
    assert layer.certified == max(row.certified for row in rows)
    assert layer.samples == 3


def test_a_bad_verdict_comes_before_any_tightness() -> None:
    verdicts = ("HOLDS", "VACUOUS", "UNKNOWN", "VIOLATED")
    for count in range(1, 5):
        lines = [record(0, n, verdict=verdicts[n], tightness=0.9 - n / 10) for n in range(count)]
        (layer,) = by_layer(rows_of(lines))
        assert (layer.worst.sample, layer.verdict) == (count - 1, Verdict(verdicts[count - 1]))


def test_the_worst_sample_is_that_of_the_terminal() -> None:
    from robust_attn.terminal import worst_samples

    lines = [line | {"head": None} for line in records(4, 5)]
    lines[7]["verdict"] = "VACUOUS"
    lines[12]["verdict"] = "UNKNOWN"
    shown = [(line["layer"], line["sample"]) for line in worst_samples(lines)]
    assert [(layer.layer, layer.worst.sample) for layer in by_layer(rows_of(lines))] == shown


def test_without_an_attack_the_largest_promise_is_the_worst() -> None:
    rows = rows_of(records(1, 5, attack="none"))
    assert by_layer(rows)[0].worst.certified == max(row.certified for row in rows)


def test_places_are_named_as_far_as_they_are_known() -> None:
    assert place_of(row_of(record(3, 1))) == "layer 3, sample 1"
    assert place_of(row_of({})) == "place not stated"


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


def test_every_layer_keeps_its_worst_rows_when_not_all_are_shown() -> None:
    tight = {0: (0.9, 0.8, 0.7), 1: (0.1, 0.2, 0.3)}
    rows = rows_of([record(layer, s, tightness=t) for layer, found in tight.items() for s, t in enumerate(found)])
    assert ranks_in_layer(rows) == [0, 1, 2, 2, 1, 0]
    assert [(row.layer, row.tightness) for row in shown_first(rows, 4)] == [(0, 0.9), (0, 0.8), (1, 0.2), (1, 0.3)]


def test_what_a_head_promises_is_not_taken_for_its_layer() -> None:
    rows = rows_of([record(0, 0), record(0, 0, head=3, certified={"bound": "hull", "output_change": 99.0})])
    (layer,) = by_layer(rows)
    assert layer.certified == rows[0].certified

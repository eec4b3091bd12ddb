"""Whether a run passes, and in which words it does not."""

from robust_attn.records.conditions import conditions_from
from robust_attn.records.gate import Gate, gate_of
from robust_attn.types import ExitStatus, Outcome, Verdict
from tests.records.samples import attack_record, prediction_record

RECORDS = [
    prediction_record(0, row=0, certified_radius={"all": 0.002}),
    prediction_record(1, row=7, certified_radius={"all": 0.0004}),
    prediction_record(2, row=9),
]


def gate(*texts: str, records=RECORDS) -> Gate:
    return gate_of(conditions_from(texts), records)


def test_without_conditions_there_is_no_gate():
    assert gate_of((), RECORDS) is None


def test_the_rows_and_their_values_are_named():
    found = gate("certified_radius<0.001")
    assert [(held.place, held.number) for held in found.held] == [("row 7", 0.0004), ("row 9", None)]
    sentence = "fail_if: certified_radius<0.001 holds at row 7 (0.0004), row 9 (unproved)"
    assert found.outcome == Outcome(ExitStatus.FAIL_IF, sentence)


def test_layers_and_verdicts_are_named():
    records = [attack_record(layer, verdict=Verdict.VACUOUS if layer else Verdict.HOLDS) for layer in range(2)]
    found = gate("verdict=VACUOUS", "tightness<0.1", records=records)
    assert found.outcome.message == "fail_if: verdict=VACUOUS holds at layer 1 sample 0 (VACUOUS)"


def test_a_condition_that_holds_nowhere_is_a_success():
    assert gate("flip_radius>1").outcome == Outcome(ExitStatus.OK)


def test_silence_is_no_success():
    found = gate("flip_radius.typed<1", "flip_radius<1")
    assert found.unjudged == ("flip_radius.typed<1",)
    assert found.outcome.status is ExitStatus.WRONG_CONFIGURATION
    assert "no record can be judged by flip_radius.typed<1" in found.outcome.message
    assert "flip_radius<1 holds at row 0" in found.outcome.message


def test_of_many_places_the_first_are_named_and_all_are_kept():
    found = gate("flip_radius<1", records=[prediction_record(sample) for sample in range(20)])
    assert "sample 7 (1.6e-05) and 12 more" in found.outcome.message
    assert "sample 8" not in found.outcome.message
    assert len(found.held) == 20


def test_a_gate_is_written_and_read_again():
    found = gate("certified_radius<0.001", "flip_radius.typed<1")
    assert Gate.from_json(found.to_json()) == found

"""The grammar of conditions, and when they hold."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.records.conditions import (
    RELATIONS,
    VERDICT,
    VERDICTS,
    NumberCondition,
    VerdictCondition,
    condition_from,
    conditions_from,
    judgeable,
)
from robust_attn.records.kinds import KINDS, AttackRecord, CertifyRecord, ConstantRecord, PredictionRecord
from robust_attn.records.parts import Certified, Observed, RadiusPart
from robust_attn.records.quantities import QUANTITIES
from robust_attn.types import UserError, Verdict
from tests.records.samples import attack_record, certify_record, constant_record, one_of_each, prediction_record

NAMES = st.sampled_from(sorted((name, way) for name, of in QUANTITIES.items() for way in ("", *of.ways)))
FINITE = st.floats(allow_nan=False, allow_infinity=False)
CONDITIONS = st.one_of(
    st.builds(lambda name, relation, limit: NumberCondition(*name, relation, limit), NAMES,
              st.sampled_from(sorted(RELATIONS)), FINITE),
    st.builds(VerdictCondition, st.just(VERDICT), st.sampled_from(VERDICTS)),
)  # fmt: skip


def holds(text: str, record) -> bool | None:
    found = condition_from(text).judged(record)
    return None if found is None else found.holds


@given(CONDITIONS, st.sampled_from(["", " ", "  "]))
def test_a_condition_written_and_read_again_is_the_same(condition, space):
    assert condition_from(str(condition)) == condition
    spread = str(condition)
    for sign in ("<=", ">=", "<", ">", "="):
        if sign in spread:
            spread = space + spread.replace(sign, f"{space}{sign}{space}") + space
            break
    assert condition_from(spread) == condition


@given(st.text(max_size=40))
def test_any_text_is_a_condition_or_one_sentence(text):
    said = ""
    try:
        condition = condition_from(text)
        assert condition_from(str(condition)) == condition
    except UserError as error:
        said = str(error)
    assert said == "" or (said.startswith("fail_if: ") and "\n" not in said)


@given(FINITE, FINITE)
def test_relations_are_those_of_numbers(radius, limit):
    record = prediction_record(flip_radius={"move": radius})
    expected = {"<": radius < limit, "<=": radius <= limit, ">": radius > limit, ">=": radius >= limit}
    expected["="] = radius == limit
    assert {sign: holds(f"flip_radius{sign}{limit!r}", record) for sign in RELATIONS} == expected


@given(CONDITIONS, st.sampled_from(one_of_each()))
def test_what_a_record_is_judged_by_its_kind_can_have(condition, record):
    found = condition.judged(record)
    if found is not None:
        assert condition.possible([type(record)])
        assert condition.quantity in judgeable([type(record)])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["is no condition", "certified_radius<0.001"]),
        ("certified_radius", ["is no condition"]),
        ("certified_radius<", ["is no condition"]),
        ("certified_radius==1", ["is no condition"]),
        ("certified_radius<<1", ["is no condition"]),
        ("certified_radius!=1", ["is no condition"]),
        ("certified_radius<0.1,flip_radius<1", ["is no condition", "several stand in a list"]),
        ("radius<0.1", ["no quantity 'radius'", "flip_radius", "verdict"]),
        ("flip_radius.all<0.1", ["no way 'all'", "one_word"]),
        ("tightness.all<0.1", ["no way 'all'", "it has none"]),
        ("tightness<little", ["'little'", "no finite number"]),
        ("tightness<nan", ["'nan'", "no finite number"]),
        ("tightness<inf", ["'inf'", "no finite number"]),
        ("verdict=HOLDS", ["verdict=VACUOUS or verdict=UNKNOWN"]),
        ("verdict<VACUOUS", ["verdict=VACUOUS or verdict=UNKNOWN"]),
        ("verdict.all=VACUOUS", ["verdict=VACUOUS or verdict=UNKNOWN"]),
    ],
)
def test_what_is_no_condition_is_one_sentence(text, words):
    with pytest.raises(UserError) as caught:
        condition_from(text)
    assert all(word in str(caught.value) for word in words)


def test_conditions_are_kept_in_order_each_once():
    found = conditions_from(["tightness<0.5", "verdict=UNKNOWN", " tightness < .5 "])
    assert list(map(str, found)) == ["tightness<0.5", "verdict=UNKNOWN"]


def test_no_certificate_means_a_certified_radius_of_zero():
    for radii in ({}, {"all": None}, {"one_word": 0.5}, {"smoothing": 0.5}):
        assert holds("certified_radius<0.001", prediction_record(certified_radius=radii))
        assert not holds("certified_radius>0", prediction_record(certified_radius=radii))
    proved = prediction_record(certified_radius={"all": 0.002, "one_word": None})
    assert holds("certified_radius<0.001", proved) is False
    assert holds("certified_radius.one_word<0.001", proved)
    assert holds("certified_radius.smoothing<0.001", proved)
    assert condition_from("certified_radius<0.001").judged(prediction_record()).number is None


def test_a_radius_of_a_tolerance_is_judged_where_one_was_asked_for():
    assert holds("certified_radius<0.001", certify_record()) is False
    assert holds("certified_radius<0.01", certify_record())
    assert holds("certified_radius<0.01", certify_record(certified_radius=RadiusPart(tolerance=0.1)))
    endless = certify_record(certified_radius=RadiusPart(tolerance=0.1, unbounded=True))
    assert holds("certified_radius<0.01", endless) is False
    assert holds("certified_radius<0.01", certify_record(certified_radius=None)) is None


def test_without_a_way_the_smallest_flip_counts_and_no_flip_is_no_failure():
    record = prediction_record(flip_radius={"move": 0.06, "split": 1e-5, "typed": None})
    assert holds("flip_radius<0.01", record)
    assert holds("flip_radius.move<0.01", record) is False
    assert holds("flip_radius.split<0.01", record)
    assert holds("flip_radius.typed<0.01", record) is False
    assert holds("flip_radius.one_word<0.01", record) is None
    assert holds("flip_radius<0.01", prediction_record(flip_radius={"move": None})) is False
    assert holds("flip_radius<0.01", prediction_record(flip_radius={})) is None


def test_the_output_change_is_the_promised_one_and_none_promised_is_endless():
    record = attack_record(change=0.15)
    assert holds("output_change>0.18", record)
    assert holds("output_change.observed>0.18", record) is False
    assert holds("output_change>1e300", attack_record(certified=Certified()))
    assert holds("output_change.observed>0", certify_record()) is None
    assert holds("output_change.observed>1", attack_record(observed=Observed()))


def test_tightness_needs_an_attack():
    assert holds("tightness<0.8", attack_record())
    assert holds("tightness<0.8", certify_record()) is None
    assert holds("tightness<0.8", constant_record()) is None


@pytest.mark.parametrize("verdict", list(Verdict))
def test_verdicts_can_be_made_failures(verdict):
    record = attack_record(verdict=verdict)
    assert holds("verdict=VACUOUS", record) is (verdict is Verdict.VACUOUS)
    assert holds("verdict=UNKNOWN", record) is (verdict is Verdict.UNKNOWN)
    assert holds("verdict=UNKNOWN", prediction_record(verdict=None)) is None


def test_what_each_kind_can_be_judged_by():
    assert judgeable([AttackRecord]) == ("output_change", "tightness", "verdict")
    assert judgeable([CertifyRecord]) == ("certified_radius", "output_change", "tightness", "verdict")
    assert judgeable([PredictionRecord]) == ("certified_radius", "flip_radius", "verdict")
    assert judgeable([ConstantRecord]) == ()
    assert judgeable(list(KINDS.values())) == (*QUANTITIES, VERDICT)


def test_an_endless_radius_is_a_number_to_compare_with():
    endless = certify_record(certified_radius=RadiusPart(tolerance=0.1, unbounded=True))
    assert condition_from("certified_radius>1").judged(endless).number == math.inf

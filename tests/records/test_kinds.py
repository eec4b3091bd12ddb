"""Records survive a line of JSON, say their kind, and never hold what is not a number."""

import json
import math
from dataclasses import replace

import pytest

from robust_attn.records.entry import NotARecordError
from robust_attn.records.kinds import KINDS, record_from
from robust_attn.types import Verdict

from .samples import attack_record, case_record, one_of_each


@pytest.mark.parametrize("record", one_of_each(), ids=lambda record: record.kind)
def test_a_record_is_the_same_after_a_line_of_json(record):
    written = json.loads(json.dumps(record.to_json(), allow_nan=False))
    assert (written["schema"], written["kind"]) == (2, record.kind)
    assert record_from(written) == record


def test_there_is_a_sample_of_every_kind():
    assert {record.kind for record in one_of_each()} == set(KINDS) - {"campaign"}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_unknown(value):
    record = replace(attack_record(), tightness=value, convergence=(1.0, value))
    assert record.tightness is None
    assert record.convergence == (1.0, None)
    assert record_from(json.loads(json.dumps(record.to_json()))) == record


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"kind": "no such kind"}, "no kind of record 'no such kind'"),
        ({"kind": None}, "no kind of record None"),
        ({"verdict": "MAYBE"}, "verdict has the value 'MAYBE'"),
        ({"layer": "first"}, "layer has the value 'first'"),
        ({"layer": True}, "layer has the value True"),
        ({"bounds": [7]}, "bounds has the value 7"),
        ({"budget": {"radius": 1.0}}, "BudgetPart lacks kind"),
        ({"observed": [1]}, r"observed has the value \[1\]"),
    ],
)
def test_what_has_not_the_form_of_a_record_is_refused(change, problem):
    with pytest.raises(NotARecordError, match=problem):
        record_from(attack_record().to_json() | change)


@pytest.mark.parametrize("line", [None, 3, [], "text"])
def test_what_is_no_object_is_no_record(line):
    with pytest.raises(NotARecordError):
        record_from(line)


def test_names_that_are_not_known_are_left_out():
    assert record_from(attack_record().to_json() | {"new": 1}) == attack_record()


def test_a_case_that_was_bound_to_be_unknown_does_not_count():
    assert case_record(verdict=Verdict.UNKNOWN).judged is Verdict.UNKNOWN
    assert case_record(verdict=Verdict.UNKNOWN, expected=True).judged is None

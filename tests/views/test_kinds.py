"""Every kind of record ends in a verdict that a person understands; nothing bad looks like success."""

import re
from dataclasses import replace

import pytest

from robust_attn.records.kinds import SplittingRecord
from robust_attn.records.parts import Constant, Observed
from robust_attn.report.asked import view_of
from robust_attn.types import Verdict
from robust_attn.views.view import Tone
from tests.records.samples import (
    attack_record,
    case_record,
    certify_record,
    constant_record,
    layer_record,
    one_of_each,
    prediction_record,
    repeat_layer_record,
    search_record,
    study_record,
)

from .runs import BROKEN, KINDS, NOTHING, UNKNOWN, run_of

GOOD = {Tone.HOLDS, Tone.MEASURED}
LOST = {
    "attack": attack_record(**UNKNOWN),
    "certify": certify_record(**UNKNOWN),
    "worst_case": search_record(**UNKNOWN),
    "layer": layer_record(**UNKNOWN),
    "repeat": replace(repeat_layer_record(), certified=NOTHING),
    "soundness": case_record(verdict=Verdict.UNKNOWN),
    "study": replace(study_record(), certified=NOTHING),
    "lipschitz": replace(constant_record(), lipschitz=Constant()),
    "prediction": prediction_record(
        verdict=Verdict.UNKNOWN, flip_radius={}, attacked=replace(prediction_record().attacked, flipped=False)
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_run_has_a_verdict_in_words_with_tables_for_a_screen(kind):
    view = view_of(run_of(*KINDS[kind]))
    statement = view.statement
    assert statement.headline.title
    assert statement.headline.detail.endswith(".")
    assert all(promise.endswith(".") for promise in statement.promises)
    assert statement.promises
    assert statement.limits
    assert any(table.terminal for table in view.every_table)
    assert view.panels or kind == "study"  # those of a study come from its task
    assert view.terms
    assert "does not judge" not in repr(view)


@pytest.mark.parametrize("record", one_of_each(), ids=lambda record: record.kind)
def test_a_record_alone_is_shown_too(record):
    view = view_of(run_of(record))
    assert any(table.rows for table in view.every_table)
    shown = " ".join(cell.shown for table in view.every_table for row in table.rows for cell in row)
    assert re.search(r"\b(nan|None|inf)\b", shown) is None


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_promise_heads_the_report_whatever_else_there_is(kind):
    others = [record for records in KINDS.values() for record in records]
    for records in ([BROKEN[kind]], [BROKEN[kind], *others]):
        statement = view_of(run_of(*records)).statement
        assert statement.headline.tone is Tone.VIOLATED
        assert "broken" in statement.headline.title or "flipped" in statement.headline.title


@pytest.mark.parametrize("kind", LOST)
def test_what_is_not_known_never_looks_like_success(kind):
    view = view_of(run_of(LOST[kind], *KINDS.get(kind, [])))
    assert view.statement.headline.tone in {Tone.UNKNOWN, Tone.FLIPPED}
    assert view_of(run_of(LOST[kind])).statement.headline.tone is Tone.UNKNOWN


def test_a_run_without_records_promises_nothing():
    assert view_of(run_of()).statement.headline.tone is Tone.UNKNOWN


def test_splitting_beside_moving_is_measured_and_says_by_how_much():
    about = {"model": "single_head", "weights": "given", "layer": 0}
    balance = SplittingRecord(**about, series="balance", mass=0.1, move=0.5, split=2.0)
    sliver = SplittingRecord(**about, series="sliver", mass=0.1, observed=Observed(w2_gain=7.0))
    view = view_of(run_of(balance, sliver, attack_record()))
    assert "up to 4 ×" in repr(view)
    assert "7.00" in repr(view)
    assert view_of(run_of(balance, sliver)).statement.headline.tone is Tone.MEASURED

from robust_attn.report.rows import by_layer, rows_of
from robust_attn.report.sensitivity import constants_of, search_row
from robust_attn.report.statement import (
    check_statement,
    constant_statement,
    leading,
    nothing_statement,
    other_statement,
    search_statement,
)
from robust_attn.report.words import Setting

from .sample_runs import constant_record, record, search_record


def searched(*lines: dict) -> str:
    return search_statement([search_row(line) for line in lines], [1.0]).promise


def test_a_search_promises_gains_within_its_ball() -> None:
    said = searched(search_record(0, proved=2.615), search_record(1, proved=3.0))
    assert "Whatever 32 tokens of norm at most 1 enter" in said
    assert "2.62 in layer 0, 3.00 in layer 1." in said


def test_a_bound_that_a_search_broke_promises_nothing() -> None:
    statement = search_statement([search_row(search_record(verdict="VIOLATED"))], [1.0])
    assert statement.headline.tone == "violated"
    assert statement.promise.startswith("Nothing is promised")


def test_local_constants_are_no_promise_about_a_budget() -> None:
    statement = constant_statement(constants_of([constant_record(0, tokens=n, value=1.1) for n in (2, 8)]))
    assert statement.headline.tone == "measured"
    assert "at 2 to 8 tokens" in statement.headline.detail
    assert "at most 1.11 in layer 0" in statement.promise
    assert "infinitely small" in statement.limits


def test_a_layer_with_an_unknown_constant_has_no_limit() -> None:
    lines = [constant_record(0), constant_record(1), constant_record(1, 1) | {"lipschitz": {"lower": 1.0}}]
    said = constant_statement(constants_of(lines)).promise
    assert "in layer 0." in said
    assert "Nothing is promised for layer 1." in said
    assert "nothing is promised" in constant_statement(constants_of(lines[2:])).promise


def test_records_without_words_are_not_judged_but_a_violation_is_said() -> None:
    lines = [{"task": "new", "verdict": "HOLDS"}, {"task": "new"}]
    calm = other_statement(lines)
    assert (calm.headline.tone, calm.confidence) == ("measured", "")
    assert "1 say HOLDS" in calm.headline.detail
    assert other_statement([*lines, {"verdict": "VIOLATED"}]).headline.tone == "violated"


def test_a_broken_promise_heads_the_report_whatever_comes_first() -> None:
    rows = rows_of([record()])
    fine = check_statement(rows, by_layer(rows), Setting("wasserstein", 0.01, "text"))
    broken = other_statement([{"verdict": "VIOLATED"}])
    assert leading([fine, broken]) is broken
    assert leading([fine, other_statement([{}])]) is fine
    assert nothing_statement().headline.title == "Nothing was measured"

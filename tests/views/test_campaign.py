"""Campaigns: what was drawn, how near observations came, and what an earlier campaign found."""

from robust_attn.records.kinds import CarriedRecord
from robust_attn.records.parts import Approach
from robust_attn.types import Verdict
from robust_attn.views.campaign import campaign_view, findings_of
from robust_attn.views.view import Tone
from tests.records.samples import case_record

from .runs import run_of


def carried(records, verdict=Verdict.HOLDS):
    about = {"model": "random", "weights": "drawn"}
    return CarriedRecord(**about, continues="before", verdict=verdict, carried=findings_of(records))


def test_findings_by_hand():
    unknown = case_record(1, verdict=Verdict.UNKNOWN, expected=True, unknown=("not finite: x",), closest={"a": None})
    found = findings_of([case_record(0, case={"attack": "move", "seed": 0}), unknown, case_record(2, exact=0)])
    assert (found.cases, found.comparisons, found.exact, found.violations, found.unknown_cases) == (3, 36, 6, 0, 1)
    assert (found.seconds, found.cases_per_minute, found.last_seed) == (1.5, 120.0, 2)
    assert found.closest["certificate"] == Approach(approach=0.8, seed=0)
    assert found.closest["a"].approach is None
    assert (found.drawn, found.unknown) == ({"attack": {"move": 1}}, {"not finite": 1})


def test_a_campaign_that_goes_on_counts_what_came_before():
    before = [case_record(seed, case={"attack": "move"}) for seed in range(3)]
    both = [carried(before), case_record(3, closest={"certificate": 0.9}, case={"attack": "move"})]
    found = findings_of(both)
    assert (found.cases, found.last_seed, found.drawn["attack"]) == (4, 3, {"move": 4})
    assert found.closest["certificate"] == Approach(approach=0.9, seed=3)
    assert campaign_view(run_of(*both)).statement.headline.tone is Tone.HOLDS
    broken = [carried(before, Verdict.VIOLATED), case_record(3)]
    assert campaign_view(run_of(*broken)).statement.headline.tone is Tone.VIOLATED


def test_cases_that_ask_for_attention_are_listed_and_expected_ones_are_not():
    broken = case_record(5, verdict=Verdict.VIOLATED, violated=("local.hull",))
    expected = case_record(6, verdict=Verdict.UNKNOWN, expected=True)
    lost = case_record(7, verdict=Verdict.UNKNOWN, unknown=("lost in rounding",))
    table = campaign_view(run_of(case_record(), broken, expected, lost)).tables[0]
    assert [[cell.shown for cell in row][:4] for row in table.rows] == [
        ["5", "move", "local.hull", "—"],
        ["7", "move", "—", "lost in rounding"],
    ]
    fine = campaign_view(run_of(case_record(), expected))
    assert fine.statement.headline.tone is Tone.HOLDS
    assert [table.name for table in fine.tables] == ["closest-table"]


def test_nothing_compared_is_no_success():
    assert campaign_view(run_of(case_record(comparisons=0, closest={}))).statement.headline.tone is Tone.UNKNOWN


def test_the_closest_come_first_and_what_is_above_a_bound_of_zero_before_all():
    table = campaign_view(run_of(case_record(closest={"a": 0.5, "b": None, "c": 1 - 1e-12}))).tables[0]
    assert [[cell.shown for cell in row][:2] for row in table.rows] == [
        ["b", "above zero"],
        ["c", "0.999999999"],
        ["a", "0.500000000"],
    ]

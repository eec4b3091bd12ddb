"""Conditions of `fail_if` as a reader meets them."""

from robust_attn.records.conditions import conditions_from
from robust_attn.views.gate import gate_note, gate_of_run, gate_of_runs, with_gate
from robust_attn.views.view import nothing_view
from tests.records.samples import attack_record, prediction_record

from .runs import run_of

RADIUS = conditions_from(["certified_radius<0.001"])


def test_the_summary_tells_unless_other_conditions_are_given():
    own = gate_of_run(run_of(prediction_record()), RADIUS)
    kept = run_of(prediction_record(), summary={"fail_if": own.to_json()})
    assert gate_of_run(kept) == own
    assert gate_of_run(kept, conditions_from(["flip_radius<1"])).conditions == ("flip_radius<1",)
    assert gate_of_run(run_of(prediction_record())) is None
    assert gate_of_run(run_of(prediction_record(), summary={"fail_if": "damaged"})) is None


def test_places_that_fail_come_first_with_what_was_found():
    gate = gate_of_run(run_of(prediction_record(row=3), prediction_record(certified_radius={"all": 0.0005})), RADIUS)
    view = with_gate(nothing_view(), gate)
    (table,) = view.tables
    assert [[cell.shown for cell in row][1:] for row in table.rows] == [["row 3", "unproved"], ["sample 0", "0.0005"]]
    assert table.terminal
    assert view.tiles[-1].number == "1 holds"
    assert gate_note(gate) == "certified_radius<0.001 holds at row 3 (unproved), sample 0 (0.0005)."


def test_a_gate_that_passes_is_a_tile_and_no_table():
    gate = gate_of_run(run_of(prediction_record(certified_radius={"all": 1.0})), RADIUS)
    view = with_gate(nothing_view(), gate)
    assert (view.tables, view.tiles[-1].number, gate_note(gate)) == ((), "0 hold", "")
    assert with_gate(nothing_view(), None) == nothing_view()


def test_of_many_runs_places_name_the_run_and_one_that_can_judge_is_enough():
    runs = {"0": run_of(attack_record()), "1": run_of(prediction_record(row=2))}
    gate = gate_of_runs(runs, RADIUS)
    assert [held.place for held in gate.held] == ["1: row 2"]
    assert gate.unjudged == ()
    assert gate_of_runs({"0": runs["0"]}, RADIUS).unjudged == ("certified_radius<0.001",)
    assert gate_of_runs(runs) is None

"""What became of the conditions of `fail_if`, as a table and in a sentence, of one run or of many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from robust_attn.records.conditions import Condition
from robust_attn.records.entry import NotARecordError
from robust_attn.records.gate import Gate, Held, gate_of
from robust_attn.records.store import Run
from robust_attn.views.table import Cell, Fields, Table, badge, cells, number, table_of, texts
from robust_attn.views.view import Tile, View
from robust_attn.views.words import counted

UNPROVED = "unproved"


def gate_of_run(run: Run, conditions: Sequence[Condition] = ()) -> Gate | None:
    """The gate of a run: by these conditions, else as its own summary says; None where it had none."""
    if conditions:
        return gate_of(conditions, run.records)
    kept = (run.summary or {}).get("fail_if")
    try:
        return Gate.from_json(kept) if kept is not None else None
    except NotARecordError:
        return None


def gate_of_runs(runs: Mapping[str, Run], conditions: Sequence[Condition] = ()) -> Gate | None:
    """The same of runs by their names, which stand before every place; what some run could judge is judged."""
    gates = {name: gate for name, run in runs.items() if (gate := gate_of_run(run, conditions)) is not None}
    if not gates:
        return None
    every = dict.fromkeys(text for gate in gates.values() for text in gate.conditions)
    judged = {text for gate in gates.values() for text in gate.conditions if text not in gate.unjudged}
    held = [replace(one, place=f"{name}: {one.place}") for name, gate in gates.items() for one in gate.held]
    unjudged = tuple(text for text in every if text not in judged)
    return Gate(conditions=tuple(every), held=tuple(held), unjudged=unjudged)


def with_gate(view: View, gate: Gate | None) -> View:
    """The view with what the gate says: the places where a condition holds come before all other tables."""
    if gate is None:
        return view
    return replace(view, tiles=(*view.tiles, _tile(gate)), tables=(*_tables(gate), *view.tables))


def gate_note(gate: Gate | None) -> str:
    """The sentence that a reader must see first; nothing where no condition holds."""
    said = gate.outcome.message if gate is not None else None
    return f"{said.removeprefix('fail_if: ')}." if said else ""


def _tile(gate: Gate) -> Tile:
    held = len({one.condition for one in gate.held})
    total = counted(len(gate.conditions), "condition")
    where = f"of {total}, at {counted(len(gate.held), 'place')}"
    return Tile("fail_if", f"{held} hold" if held != 1 else "1 holds", where)


def _tables(gate: Gate) -> tuple[Table, ...]:
    fields: Fields[Held] = (
        texts("Condition", lambda held: held.condition, code=True),
        texts("Where", lambda held: held.place),
        cells("Found", _found),
    )
    note = "Where a condition of fail_if holds, with what was found there. A number without a proof counts as unproved."
    title = "Conditions of fail_if that hold"
    made = table_of("gate-table", title, fields, gate.held, note=note, terminal=True, rest="summary.json")
    return (made,) if gate.held else ()


def _found(held: Held) -> Cell:
    if held.verdict is not None:
        return badge(held.verdict)
    return Cell(UNPROVED) if held.number is None else number(held.number)

"""Which sample speaks for a layer, and which rows are shown when not all can be."""

from dataclasses import replace

import pytest

from robust_attn.records.parts import BoundPart, Scale
from robust_attn.types import Scope, Verdict
from robust_attn.views.layers import (
    by_layer,
    layer_table,
    layers_panel,
    record_table,
    shown_first,
    verdict_of,
)
from robust_attn.views.panel import Role
from robust_attn.views.table import ROWS_SHOWN
from tests.records.samples import attack_record, certified

from .runs import NOTHING


def test_a_layer_promises_what_covers_all_samples_and_shows_the_one_that_came_closest():
    wide = attack_record(0, 0, certified=certified(4.5), tightness=0.2)
    close = attack_record(0, 1, certified=certified(0.1005), tightness=0.8, change=0.08057)
    (row,) = by_layer([wide, close])
    assert (row.certified, row.worst) == (4.5, close)
    assert by_layer([wide, replace(close, certified=NOTHING)])[0].certified is None
    cells = [cell.shown for cell in layer_table([wide, close], "text", terminal=True).rows[0]]
    assert cells[:3] == ["0", "HOLDS", "4.50"]
    assert {"1", "0.101", "0.0805"} <= set(cells)


def test_every_point_belongs_to_the_sample_that_the_table_names():
    wide = [attack_record(n, 0, certified=certified(4.5), tightness=0.2) for n in (0, 1)]
    close = [attack_record(n, 1, certified=certified(0.1), tightness=0.8, change=0.08) for n in (0, 1)]
    panel = layers_panel([*wide, *close])
    assert panel.lines["observed"] == ((0.0, 0.08), (1.0, 0.08))
    assert panel.lines["certified"] == ((0.0, 0.1), (1.0, 0.1))


def test_what_speaks_of_the_tokens_alone_is_no_bound_in_the_figure_and_what_is_too_large_is_named():
    panel = layers_panel([attack_record(0), attack_record(1)])
    assert "local.closed_form" not in panel.lines
    assert {panel.look(name).role for name in ("sharp.unified", "local.hull")} == {Role.BOUND}
    assert "Far above the axis: paper.mean_field (10⁴⁹⁸)" in panel.caption


@pytest.mark.parametrize("said", list(Verdict))
def test_nothing_is_promised_where_the_number_is_not_known(said):
    expected = said if said is Verdict.VIOLATED else Verdict.UNKNOWN
    assert verdict_of(attack_record(certified=NOTHING, verdict=said)) is expected
    assert verdict_of(attack_record(verdict=said)) is said


def test_a_head_does_not_speak_for_its_layer():
    assert by_layer([replace(attack_record(), head=2)]) == ()


def test_rows_that_ask_for_attention_come_first_then_the_worst_of_every_layer():
    checks = [attack_record(layer, sample, tightness=sample / 10) for layer in range(2) for sample in range(5)]
    checks[3] = replace(checks[3], verdict=Verdict.VIOLATED)
    assert [(c.layer, c.sample) for c in shown_first(checks, 3)] == [(0, 3), (0, 4), (1, 4)]


def test_a_long_table_says_how_much_is_left_out_and_where_it_is():
    table = record_table([attack_record(sample=sample) for sample in range(ROWS_SHOWN + 7)], "text")
    assert (len(table.rows), table.left_out, table.rest) == (ROWS_SHOWN, 7, "records.jsonl")


def test_heads_have_a_column_only_where_there_are_any():
    def titles(*checks):
        return [column.title for column in record_table(checks, "text").columns]

    assert "Head" in titles(attack_record(), replace(attack_record(), head=2))
    assert "Head" not in titles(attack_record())


def test_the_papers_bound_is_its_smallest():
    bounds = tuple(
        BoundPart(name=name, log10=log10, output_change=10**log10 / 100, scope=Scope.GLOBAL)
        for name, log10 in (("paper.a", 4.0), ("paper.b", 3.0), ("sharp.c", 1.0))
    )
    titles = [column.title for column in layer_table([attack_record(bounds=bounds)], "text", terminal=True).columns]
    row = layer_table([attack_record(bounds=bounds)], "text", terminal=True).rows[0]
    assert row[titles.index("Paper’s bound")].shown == "10.0"


def test_a_promise_is_told_as_a_share_of_the_output_too():
    """0.1 of 2 is 5 %, 0.3 of 4 is 7.5 %: the largest counts, rounded up; unknown as soon as one norm is."""
    scales = [Scale(tokens=1.0, output=norm) for norm in (2.0, 4.0)]
    checks = [
        attack_record(0, sample, certified=certified(change), scale=scale)
        for sample, (change, scale) in enumerate(zip((0.1, 0.3), scales, strict=True))
    ]
    (row,) = by_layer(checks)
    assert row.share == pytest.approx(0.075)
    titles = [column.title for column in layer_table(checks, "text", terminal=True).columns]
    assert layer_table(checks, "text", terminal=True).rows[0][titles.index("Of its norm")].shown == "7.50 %"
    assert by_layer([checks[0], attack_record(0, 1)])[0].share is None


def test_the_promise_of_the_worst_sample_is_a_column_only_where_it_is_another_one():
    def titles(*checks):
        return [column.title for column in layer_table(checks, "text", terminal=True).columns]

    assert "Its promise" not in titles(attack_record())
    assert "Its promise" in titles(attack_record(0, 0, tightness=0.1, certified=certified(4.5)), attack_record(0, 1))

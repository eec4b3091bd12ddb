from xml.etree import ElementTree

import pytest

from robust_attn.report.chart import svg_text
from robust_attn.report.figures import SEARCHES, charts_of
from robust_attn.report.findings import example_row
from robust_attn.report.rows import by_layer, rows_of
from robust_attn.report.sensitivity import search_row

from .sample_runs import bound, record, records, search_record

EMPTY = {"input_change": None, "output_change": None, "gain": None}
NOTHING = {"bound": None, "output_change": None, "failure_probability": None}
CASES = {
    "many": (records(12, 2), {"layers", "ladder", "convergence"}),
    "one": ([record(3)], {"layers", "ladder", "convergence"}),
    "certify": (records(3, 1, attack="none"), {"layers", "ladder"}),
    "nulls": ([record(observed=EMPTY, certified=NOTHING, tightness=None, bounds=[], convergence=[None, None])], set()),
    "bounds only": ([record(observed=EMPTY, certified=NOTHING, tightness=None)], {"layers", "ladder"}),
    "gaps": ([record(0), record(1, observed=EMPTY, certified=NOTHING), record(2)], {"layers", "ladder", "convergence"}),
    "nothing": ([], set()),
    "empty record": ([{}], set()),
    "zero": ([record(bounds=[bound("a", 0.0, "local", log10=None)], observed=EMPTY)], {"layers"}),
    "odd names": ([record(bounds=[bound("<b>$x_{", 1.0, "local"), bound("$$", 2.0, "ball")])], {"layers", "ladder"}),
}


@pytest.mark.parametrize("case", CASES)
def test_every_shape_of_records_draws_what_it_can(case: str) -> None:
    lines, names = CASES[case]
    rows = rows_of(lines)
    charts = charts_of(rows, example_row(rows))
    assert {chart.name for chart in charts} >= names
    for chart in charts:
        ElementTree.fromstring(svg_text(chart))  # well-formed: texts in it are escaped


def test_marks_carry_their_value_for_the_hover() -> None:
    rows = rows_of(records(2, 1))
    text = svg_text(charts_of(rows, None)[0])
    assert "<title>layer 1, certified: " in text
    assert "<title>layer 0, observed: " in text


def test_every_point_belongs_to_the_sample_that_the_layer_table_names() -> None:
    weak = record(0, 0, tightness=0.2, observed={"output_change": 0.9}, certified={"bound": "b", "output_change": 4.5})
    close = record(
        0, 1, tightness=0.8, observed={"output_change": 0.08057}, certified={"bound": "b", "output_change": 0.1005}
    )
    rows = rows_of([weak, close])
    (layer,) = by_layer(rows)
    text = svg_text(charts_of(rows, None)[0])
    assert layer.worst is rows[1]
    assert "<title>layer 0, observed: 0.0805</title>" in text
    assert "<title>layer 0, certified: 0.101</title>" in text


def test_captions_speak_of_an_attack_only_where_there_was_one() -> None:
    attacked, certified = (charts_of(rows_of(records(2, 1, attack=name)), None)[0] for name in ("move", "none"))
    assert "attack" in attacked.caption
    assert "attack" not in certified.caption
    assert "orange" not in certified.caption


def test_searches_are_drawn_as_gains_under_names_of_their_own() -> None:
    rows = [search_row(search_record(layer)) for layer in range(2)]
    charts = charts_of(rows, rows[0], SEARCHES)
    assert [chart.name for chart in charts] == ["search-layers", "search-ladder", "search-convergence"]
    assert "gain (output change per unit of input change)" in svg_text(charts[0])
    assert not [chart.name for chart in charts if "attack" in chart.title + chart.caption]

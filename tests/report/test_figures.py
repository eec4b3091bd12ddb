from xml.etree import ElementTree

import pytest

from robust_attn.report.chart import png_file, svg_text
from robust_attn.report.figures import charts_of
from robust_attn.report.findings import example_row
from robust_attn.report.rows import rows_of

from .sample_runs import bound, record, records

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
    "lengths": ([record(tokens=n) for n in (8, 16, 32)], {"layers", "ladder", "convergence", "lengths"}),
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


def test_svg_follows_the_page_and_shares_no_ids() -> None:
    rows = rows_of(records(2, 2))
    texts = [svg_text(chart) for chart in charts_of(rows, example_row(rows))]
    ids = [element.get("id") for text in texts for element in ElementTree.fromstring(text).iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    for text in texts:
        assert "var(--ink)" in text or "var(--muted)" in text
        assert "http" not in text
        assert 'role="img"' in text


def test_marks_carry_their_value_for_the_hover() -> None:
    rows = rows_of(records(2, 1))
    text = svg_text(charts_of(rows, None)[0])
    assert "<title>layer 1, certified: " in text
    assert "<title>layer 0, observed: " in text


def test_figures_are_files_too_and_leave_no_global_state(tmp_path) -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    rows = rows_of(records(2, 1))
    path = png_file(charts_of(rows, None)[0], tmp_path / "figures")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert dict(mpl.rcParams) == before

import re
from xml.etree import ElementTree

import pytest

from robust_attn.report import chart as charting
from robust_attn.report.chart import Chart, Tips, canvas, house_style, literal, log_axis, png_file, svg_text
from robust_attn.report.figures import charts_of
from robust_attn.report.findings import example_row
from robust_attn.report.rows import rows_of

from .sample_runs import records


def drawn(label: str = "x", tip: str = "value") -> Chart:
    with house_style():
        figure, axes = canvas()
        tips = Tips()
        axes.plot([1], [1], marker="o", gid=tips.mark(tip))
        axes.set_xlabel(literal(label))
    return Chart("name", 'a "title"', "caption", "description <b>", figure, tips)


def test_svg_follows_the_page_and_shares_no_ids() -> None:
    rows = rows_of(records(2, 2))
    texts = [svg_text(chart) for chart in charts_of(rows, example_row(rows))]
    ids = [element.get("id") for text in texts for element in ElementTree.fromstring(text).iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    for text in texts:
        assert "var(--ink)" in text or "var(--muted)" in text
        assert "http" not in text
        assert 'role="img"' in text


def test_figures_are_files_too_and_leave_no_global_state(tmp_path) -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    rows = rows_of(records(2, 1))
    path = png_file(charts_of(rows, None)[0], tmp_path / "figures")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("text", ["$x_{", "<b>&", "two $a$ and $b$"])
def test_labels_and_hover_texts_are_taken_literally(text: str) -> None:
    root = ElementTree.fromstring(svg_text(drawn(text, text)))
    words = [element.text for element in root.iter() if element.text]
    assert words.count(text) == 2


def test_the_title_and_the_description_are_there_for_screen_readers() -> None:
    label = ElementTree.fromstring(svg_text(drawn())).get("aria-label")
    assert label == 'a "title". description <b>'


def test_hover_texts_stop_before_the_file_swells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charting, "_MAXIMAL_TIPS", 2)
    tips = Tips()
    assert [tips.mark("a"), tips.mark("b"), tips.mark("c")] == ["tip0", "tip1", None]


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [(0.84, 1.04, {"0.9", "1"}), (1.0, 40.0, {"1", "2", "5", "10", "20"}), (1e-3, 1e3, {"0.001", "1", "1000"})],
)
def test_a_log_axis_has_readable_marks_whatever_it_spans(low: float, high: float, wanted: set[str]) -> None:
    with house_style():
        figure, axes = canvas()
        axes.plot([1, 2], [low, high])
        log_axis(axes, "y")
        figure.draw_without_rendering()
    assert wanted <= {label.get_text() for label in axes.get_yticklabels()}


def test_colours_are_left_to_the_page() -> None:
    text = svg_text(drawn())
    assert not re.findall(f"{charting.INK}|{charting.MUTED}|{charting.LINE}", text)

"""Panels of every kind as figures: well-formed, coloured by the page, told to those who cannot see them."""

import functools
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from robust_attn.report import drawing
from robust_attn.report.asked import view_of
from robust_attn.report.drawing import Tips, drawn, style_of
from robust_attn.report.html import About
from robust_attn.report.pictures import png_file, svg_text
from robust_attn.report.single import write_pages
from robust_attn.report.style import CERTIFIED, INK, LINE, MUTED, OBSERVED, WIDTH, canvas, house_style, log_axis
from robust_attn.views.panel import Look, MapCell, Panel, Role
from robust_attn.views.view import nothing_view
from tests.views.runs import KINDS, run_of

PANELS = {
    f"{kind} {panel.name}": panel for kind, records in KINDS.items() for panel in view_of(run_of(*records)).panels
}


def panel(name: str = "p", **lines) -> Panel:
    return Panel(name, "title", "x", "y", lines, frozenset({"bound"}))


@functools.cache
def svg(name: str) -> str:
    return svg_text(drawn(PANELS[name]))


@pytest.mark.parametrize("name", PANELS)
def test_every_panel_is_drawn_and_follows_the_page(name):
    text = svg(name)
    root = ElementTree.fromstring(text)
    assert root.get("role") == "img"
    assert root.get("aria-label") == f"{PANELS[name].title}. {PANELS[name].words}"
    assert "http" not in text
    assert not re.findall(f"{INK}|{MUTED}|{LINE}|{CERTIFIED}|{OBSERVED}", text)
    assert "<title>" in text  # marks tell their values


@pytest.mark.parametrize("name", PANELS)
def test_letters_can_be_read_on_a_telephone(name):
    """A page of 400 pixels leaves 350 for a figure: no letter is smaller than 7 of them there."""
    sizes = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", svg(name))]
    assert min(sizes) * 350 / (WIDTH * 72) >= 6.9


def test_the_label_of_an_upright_axis_is_not_cut():
    long = "allowed change / (radius × local constant)"
    figure = drawn(replace(panel(a=((1.0, 1.0), (2.0, 2.0))), y_label=long)).figure
    figure.draw_without_rendering()
    (axes,) = figure.axes
    label = axes.yaxis.label.get_window_extent()
    assert figure.bbox.y0 <= label.y0 < label.y1 <= figure.bbox.y1
    assert axes.get_ylabel().split() == long.split()


def test_figures_of_one_page_share_no_ids():
    texts = [svg(name) for name in PANELS if name.startswith("attack")]
    ids = [element.get("id") for text in texts for element in ElementTree.fromstring(text).iter() if element.get("id")]
    assert len(ids) == len(set(ids))


def test_marks_carry_their_value_for_the_hover():
    text = svg("attack layers")
    assert "<title>layer 1, certified: 0.200</title>" in text
    assert "<title>layer 0, observed: 0.150</title>" in text


@pytest.mark.parametrize("odd", ["$x_{", "<b>&", "two $a$ and $b$"])
def test_words_are_taken_literally(odd):
    lines = {odd: ((0.0, 1.0), (1.0, 2.0))}
    for one in (
        Panel("p", odd, odd, odd, lines),
        Panel("p", odd, odd, odd, lines, categories=(odd, odd), looks={odd: Look(Role.BOUND, odd)}),
        Panel("p", odd, odd, odd, {}, cells=(MapCell(0, 0, 1.0, odd, odd), MapCell(0, 1, 2.0, odd, odd))),
    ):
        root = ElementTree.fromstring(svg_text(drawn(one)))
        words = [element.text for element in root.iter() if element.text]
        assert odd in words


def test_one_small_png_per_panel_that_has_points_and_no_global_state(tmp_path):
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    full = panel("full", attained=((1.0, 2.0), (10.0, 3.0)), bound=((1.0, 5.0), (10.0, 6.0)))
    write_pages(tmp_path, replace(nothing_view(), panels=(full, panel("empty", attained=()))), About("two panels"))
    paths = list((tmp_path / "figures").iterdir())
    assert [path.name for path in paths] == ["full.png"]
    assert paths[0].read_bytes()[:4] == b"\x89PNG"
    assert paths[0].stat().st_size < 150_000
    assert dict(mpl.rcParams) == before


def test_what_a_logarithm_cannot_show_is_left_out(tmp_path):
    assert png_file(drawn(panel(attained=((1.0, 0.0), (2.0, float("inf"))))), tmp_path).exists()


def test_a_bound_beyond_all_others_is_named_and_does_not_flatten_them():
    figure = drawn(panel(attained=((1.0, 1.0), (2.0, 4.0)), bound=((1.0, 1e140), (2.0, 1e150)))).figure
    assert figure.axes[0].get_ylim()[1] < 100
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["attained", "bound (up to 1.00·10¹⁵⁰)"]


def test_rounding_does_not_look_like_a_difference():
    ratio = Panel("p", "t", "layer", "ratio", {"a": ((0.0, 1.0 + 1e-9),)}, log_x=False, log_y=False, level=1.0)
    low, high = drawn(ratio).figure.axes[0].get_ylim()
    assert low <= 0.95
    assert high >= 1.05


def test_roles_decide_how_a_line_looks():
    looks = {role.value: Look(role, "group") for role in Role}
    many = Panel("p", "t", "x", "y", dict.fromkeys(looks, ((1.0, 1.0),)), looks=looks)
    styles = {role: style_of(many, role.value) for role in Role}
    assert styles[Role.CERTIFIED]["color"] == CERTIFIED
    assert styles[Role.OBSERVED]["color"] == OBSERVED
    assert styles[Role.TANGENT]["mfc"] == styles[Role.LOWER]["mfc"] == "none"
    assert styles[Role.PROMISED]["color"] == styles[Role.REACHED]["color"] not in (CERTIFIED,)
    assert styles[Role.CERTIFIED]["lw"] > styles[Role.BOUND]["lw"]


def test_hover_texts_stop_before_the_file_swells(monkeypatch):
    monkeypatch.setattr(drawing, "MOST_TIPS", 2)
    tips = Tips()
    assert [tips.mark("a"), tips.mark("b"), tips.mark("c")] == ["tip0", "tip1", None]


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [(0.84, 1.04, {"0.9", "1"}), (1.0, 40.0, {"1", "2", "5", "10", "20"}), (1e-3, 1e3, {"0.001", "1", "1000"})],
)
def test_a_log_axis_has_readable_marks_whatever_it_spans(low, high, wanted):
    with house_style():
        figure, axes = canvas(3.0)
        axes.plot([1, 2], [low, high])
        log_axis(axes, "y")
        figure.draw_without_rendering()
    assert wanted <= {label.get_text() for label in axes.get_yticklabels()}


def test_steps_keep_their_value_to_the_right_and_mark_where_it_changes():
    lines = {"certified": ((0.1, 1.0), (0.2, 1.0), (0.3, 0.5), (0.4, 0.0))}
    made = Panel("p", "t", "radius", "share", lines, log_y=False, percent=True, steps=True)
    (axes,) = drawn(made).figure.axes
    assert axes.lines[0].get_drawstyle() == "steps-post"
    assert [tuple(line.get_xdata()) for line in axes.lines[1:]] == [(0.1,), (0.3,), (0.4,)]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["0 %", "25 %", "50 %", "75 %", "100 %"]
    assert not {0.3, 0.4} <= set(axes.get_xticks())  # labels at every turn would lie on one another


def test_bars_begin_at_zero_and_tell_their_value():
    lines = {"a": ((0.0, 0.75),), "b": ((1.0, 0.25),)}
    made = Panel("p", "t", "step", "part", lines, log_y=False, percent=True, bars=True, categories=("a", "b"))
    figure = drawn(made)
    (axes,) = figure.figure.axes
    assert [(bar.get_x(), bar.get_width()) for bar in axes.patches] == [(0.0, 0.75), (0.0, 0.25)]
    assert [text.get_text() for text in axes.texts] == ["75.0 %", "25.0 %"]
    assert "<title>b: 25.0 %</title>" in svg_text(figure)

import io

from robust_attn.experiments.figures import figure_of, write_figures
from robust_attn.views.panel import Panel


def panel(name: str, **lines) -> Panel:
    return Panel(name, "title", "x", "y", lines, frozenset({"bound"}))


def test_one_small_png_per_panel_that_has_points(tmp_path):
    full = panel("full", attained=((1.0, 2.0), (10.0, 3.0)), bound=((1.0, 5.0), (10.0, 6.0)))
    paths = write_figures([full, panel("empty", attained=())], tmp_path / "figures")
    assert [path.name for path in paths] == ["full.png"]
    assert paths[0].read_bytes()[:4] == b"\x89PNG"
    assert paths[0].stat().st_size < 150_000


def test_what_a_logarithm_cannot_show_is_left_out(tmp_path):
    (path,) = write_figures([panel("p", attained=((1.0, 0.0), (2.0, float("inf"))))], tmp_path)
    assert path.exists()


def test_a_bound_beyond_all_others_is_named_and_does_not_flatten_them():
    huge = panel("p", attained=((1.0, 1.0), (2.0, 4.0)), bound=((1.0, 1e140), (2.0, 1e150)))
    (axes,) = figure_of(huge).axes
    assert axes.get_ylim()[1] < 100
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["attained", "bound (up to 1.00·10¹⁵⁰)"]


def test_words_in_a_panel_are_not_taken_for_mathematics():
    odd = Panel("p", "$x_{", "$", "$$", {"$a_{": ((1.0, 1.0), (2.0, 2.0))})
    figure_of(odd).savefig(io.BytesIO())

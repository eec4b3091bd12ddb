from robust_attn.report.chart import svg_text
from robust_attn.report.sensitivity import constants_of, growth_of
from robust_attn.report.sensitivity_figures import lengths_chart

from .sample_runs import constant_record


def test_means_are_drawn_against_length_with_the_exponent_named() -> None:
    lines = [constant_record(layer, tokens=n, value=n**0.5) for layer in range(2) for n in (4, 16)]
    chart = lengths_chart(growth_of(constants_of(lines)))
    assert chart is not None
    text = svg_text(chart)
    assert "layer 1, exponent 0.5" in text
    assert "<title>layer 0, 16 tokens: 4.00</title>" in text
    assert "2.00 at 4 tokens" in chart.description


def test_one_length_draws_nothing() -> None:
    assert lengths_chart(growth_of(constants_of([constant_record(tokens=4)]))) is None
    assert lengths_chart(()) is None


def test_layers_that_are_not_drawn_are_mentioned() -> None:
    lines = [constant_record(layer, tokens=n) for layer in range(12) for n in (4, 16)]
    chart = lengths_chart(growth_of(constants_of(lines)))
    assert chart is not None
    assert "The first 8 of 12 lines are drawn." in chart.caption

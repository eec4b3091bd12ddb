from robust_attn.report.certificates import certificate_rows
from robust_attn.report.chart import svg_text
from robust_attn.report.heatmap import MOST_LABELLED, heads_chart

from .sample_runs import certificate_record, record


def certified(layer: int, head: int | None, change: float | None) -> dict:
    promise = {"bound": "hull", "output_change": change, "failure_probability": 0.0}
    return certificate_record(layer, head=head, certified=promise)


def test_every_head_has_a_cell_that_tells_its_gain() -> None:
    lines = [certified(layer, head, 0.01 * (1 + layer + head)) for layer in (0, 5) for head in range(3)]
    chart = heads_chart(certificate_rows([*lines, certified(0, None, 9.0)]), 0.01)
    assert chart is not None
    text = svg_text(chart)
    assert text.count("<title>layer ") == 6
    assert "<title>layer 5, head 2: at most 8.00</title>" in text
    assert "largest certified gain 8.00 in layer 5, head 2" in chart.description
    assert "9.0" not in text


def test_the_largest_head_is_the_strongest_colour() -> None:
    rows = certificate_rows([certified(0, head, 10.0**head) for head in range(3)])
    chart = heads_chart(rows, None)
    assert chart is not None
    opacities = [patch.get_alpha() for patch in chart.figure.axes[0].patches]
    assert opacities == sorted(opacities)
    assert opacities[0] < opacities[1] < opacities[2]
    assert "certified output change" in chart.description


def test_heads_without_a_number_and_runs_without_heads_draw_nothing() -> None:
    assert heads_chart(certificate_rows([certified(0, 0, None), certified(0, 1, 0.5)]), 0.01) is None
    assert heads_chart(certificate_rows([record(), certified(0, None, 1.0)]), 0.01) is None


def test_many_heads_carry_no_numbers_in_their_cells() -> None:
    rows = certificate_rows([certified(0, head, 0.5) for head in range(MOST_LABELLED + 1)])
    chart = heads_chart(rows, 1.0)
    assert chart is not None
    assert [text.get_text() for text in chart.figure.axes[0].texts] == []

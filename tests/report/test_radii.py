from typing import Any

import pytest

from robust_attn.report.chart import svg_text
from robust_attn.report.radii import against_radius, radius_chart

from .sample_runs import record


def at(radius: float, *, certified: float | None, observed: float | None = None, **extra: Any) -> dict[str, Any]:
    return (
        record(
            budget={"kind": "wasserstein", "radius": radius},
            certified={"bound": "b", "output_change": certified, "failure_probability": 0},
            observed={"output_change": observed},
        )
        | extra
    )


def test_the_largest_of_the_samples_counts_at_every_radius() -> None:
    lines = [
        at(0.1, certified=1.0, observed=0.5),
        at(0.1, certified=2.0, observed=0.25, sample=1),
        at(0.2, certified=3.0, observed=0.75),
        at(0.2, certified=2.5, sample=1),
    ]
    (line,) = against_radius(lines)
    assert line.certified == {0.1: 2.0, 0.2: 3.0}
    assert line.observed == {0.1: 0.5, 0.2: 0.75}
    chart = radius_chart([line])
    assert chart is not None
    text = svg_text(chart)
    assert "<title>layer 0, certified, 0.2: 3.00</title>" in text
    assert "<title>layer 0, observed, 0.1: 0.500</title>" in text
    assert "at most 2.00 at 0.1" in chart.description


def test_an_unknown_promise_leaves_a_gap_not_a_smaller_promise() -> None:
    lines = [
        at(0.1, certified=1.0),
        at(0.2, certified=None),
        at(0.2, certified=5.0, sample=1),
        at(0.1, certified=1.0, sample=1),
    ]
    (line,) = against_radius(lines)
    assert line.certified == {0.1: 1.0}


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [{}, {"budget": 3, "layer": 0}],
        [at(0.1, certified=1.0)],
        [at(0.1, certified=1.0), at(0.2, certified=1.0, sample=1)],  # another sample is not another radius
        [at(0.1, certified=1.0, head=0), at(0.2, certified=1.0, head=0)],
    ],
)
def test_one_radius_is_no_curve(lines: list[dict[str, Any]]) -> None:
    assert radius_chart(against_radius(lines)) is None


def test_a_curve_without_an_attack_speaks_of_none() -> None:
    chart = radius_chart(against_radius([at(0.1, certified=1.0), at(0.2, certified=2.0)]))
    assert chart is not None
    assert "attack" not in chart.caption

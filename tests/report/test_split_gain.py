from pathlib import Path

import pytest

from robust_attn.report.chart import svg_text
from robust_attn.report.load import find_runs
from robust_attn.report.split_gain import Examined, split_chart, split_gains
from robust_attn.report.sweep import sweep_of, write_sweep_report

from .sample_runs import record, write_sweep
from .test_html import Page


def seen(attack: str, gain: float | None, *, layer: int = 0, sample: int = 0, **extra: object) -> dict:
    return record(layer, sample, attack=attack, observed={"w2_gain": gain}) | extra


def run(attack: str, *lines: dict, **settings: str) -> Examined:
    return Examined({"attack": attack, **settings}, lines)


def test_pairs_differ_in_the_attack_alone() -> None:
    moves = run("move", seen("move", 2.0), seen("move", 4.0, sample=1), seen("move", 1.0, layer=3))
    splits = run("mass_split", seen("mass_split", 3.0), seen("mass_split", 4.0, sample=1))
    (gain,) = split_gains([moves, splits])
    assert (gain.layer, gain.pairs, gain.smallest, gain.largest) == (0, 2, 1.0, 1.5)
    assert gain.typical == pytest.approx(1.5**0.5)


@pytest.mark.parametrize(
    "other",
    [
        {"tokens": 64},
        {"budget": {"kind": "wasserstein", "radius": 0.5}},
        {"model": "gpt2"},
        {"sample": 7},
        {"layer": 7},
        {"head": 0},
        {"observed": {"w2_gain": None}},
        {"observed": {"w2_gain": 0.0}},
    ],
)
def test_what_is_not_the_same_is_not_compared(other: dict) -> None:
    assert split_gains([run("move", seen("move", 2.0)), run("mass_split", seen("mass_split", 3.0) | other)]) == ()


@pytest.mark.parametrize(("key", "group"), [("dtype", "dtype=0"), ("seed", "all runs")])
def test_runs_of_different_settings_are_not_compared_and_are_grouped(key: str, group: str) -> None:
    runs = [
        run("move", seen("move", 2.0), **{key: "0"}),
        run("mass_split", seen("mass_split", 3.0), **{key: "0"}),
        run("mass_split", seen("mass_split", 5.0), **{key: "1"}),
    ]
    (gain,) = split_gains(runs)
    assert (gain.group, gain.largest) == (group, 1.5)


def test_settings_of_the_split_attack_are_groups_of_their_own_against_the_same_move() -> None:
    runs = [run("move", seen("move", 2.0))]
    runs += [run("mass_split", seen("mass_split", gain), **{"attack.copies": str(gain)}) for gain in (3, 4)]
    assert [(gain.group, gain.largest) for gain in split_gains(runs)] == [
        ("attack.copies=3", 1.5),
        ("attack.copies=4", 2.0),
    ]


def test_rounding_does_not_look_like_a_difference() -> None:
    runs = [run("move", seen("move", 2.0)), run("mass_split", seen("mass_split", 2.0 + 1e-9))]
    chart = split_chart(split_gains(runs))
    assert chart is not None
    low, high = chart.figure.axes[0].get_ylim()
    assert low <= 0.95
    assert high >= 1.05
    assert "<title>all runs, layer 0: 1 times (1 to 1, 1 pairs)</title>" in svg_text(chart)
    assert split_chart(()) is None


def test_a_sweep_over_both_attacks_shows_the_ratio(tmp_path: Path) -> None:
    splits = sweep_of(tmp_path, find_runs(write_sweep(tmp_path))).splits
    assert {gain.pairs for gain in splits} == {4}
    assert {gain.group for gain in splits} == {"model=gpt2", "model=minilm"}
    page = Page(write_sweep_report(tmp_path).read_text(encoding="utf-8"))
    assert "What splitting gains over moving" in page.text
    assert {"split-table", "figure-splitting"} <= set(page.ids)

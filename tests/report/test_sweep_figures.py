from collections.abc import Sequence
from xml.etree import ElementTree

from robust_attn.report.chart import Chart, svg_text
from robust_attn.report.load import find_runs
from robust_attn.report.sweep import sweep_of
from robust_attn.report.sweep_figures import sweep_charts

from .sample_runs import constant_record, record, write_run, write_sweep


def charts(folder) -> Sequence[Chart]:
    sweep = sweep_of(folder, find_runs(folder))
    return sweep_charts(sweep.runs, sweep.keys)


def test_a_swept_number_has_a_chart_and_runs_stand_side_by_side(tmp_path) -> None:
    drawn = charts(write_sweep(tmp_path))
    assert [chart.name for chart in drawn] == ["along-tokens", "runs"]
    for chart in drawn:
        ElementTree.fromstring(svg_text(chart))
    along, runs = (svg_text(chart) for chart in drawn)
    assert "<title>attack=move, model=gpt2, certified, 128: " in along
    assert "<title>0, observed: " in runs
    assert "4 groups, 4 values of tokens" in drawn[0].description


def test_a_swept_word_has_no_axis_of_its_own(tmp_path) -> None:
    for number, attack in enumerate(("move", "mass_split")):
        write_run(tmp_path / str(number), [record(attack=attack)], overrides=(f"attack={attack}",))
    assert [chart.name for chart in charts(tmp_path)] == ["runs"]


def test_runs_without_numbers_draw_nothing(tmp_path) -> None:
    write_run(tmp_path / "0", [])
    write_run(tmp_path / "1", [constant_record()])
    assert charts(tmp_path) == ()


def test_groups_that_are_not_drawn_are_mentioned(tmp_path) -> None:
    for seed in range(10):
        for tokens in (16, 32):
            overrides = (f"model=m{seed}", f"tokens={tokens}")
            write_run(tmp_path / f"{seed}-{tokens}", [record(tokens=tokens)], overrides=overrides)
    along = charts(tmp_path)[0]
    assert "The first 8 of 10 groups are drawn." in along.caption

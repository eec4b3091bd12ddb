"""Bars: what they count, and that they are drawn on terminals alone."""

import io
from dataclasses import replace

from rich.console import Console

from robust_attn.runs.progress import RunBars
from tests.records.samples import attack_record, certify_record, layer_record, prediction_record


def bars_on(file: io.StringIO, *, terminal: bool) -> RunBars:
    return RunBars(Console(file=file, force_terminal=terminal, width=120))


def counts(bars: RunBars) -> list[tuple[str, float, float | None]]:
    return [(task.description, task.completed, task.total) for task in bars.progress.tasks if task.visible]


def a_run(bars: RunBars) -> None:
    with bars:
        bars.begin("loading toy")
        bars.begin("attack", layers=2, samples=4)
        bars.begin_layer("attack, layer 0, 8 tokens")
        for _ in range(3):
            bars.step()
        bars.end_layer()
        bars.begin_layer("attack, layer 1, 8 tokens")
        for sample in (0, 1, 3, 2):  # told by another thread, which may be late
            bars.record(attack_record(0, sample))
        bars.step()
        bars.record(attack_record(1, 0))


def test_layers_samples_and_steps_are_counted_and_the_next_layer_expects_the_steps_of_the_last():
    bars = bars_on(io.StringIO(), terminal=False)
    a_run(bars)
    assert counts(bars) == [("attack, layer 1, 8 tokens", 1, 2), ("samples × layers", 5, 8), ("steps", 1, 3)]


def test_the_first_layer_counts_steps_without_knowing_how_many_come():
    bars = bars_on(io.StringIO(), terminal=False)
    bars.begin("attack", layers=2, samples=4)
    bars.begin_layer("attack, layer 0")
    assert counts(bars)[-1] == ("samples × layers", 0, 8)  # what takes no steps shows no bar of them
    bars.step()
    assert counts(bars)[-1] == ("steps", 1, None)


def test_heads_and_layers_of_a_sample_count_once():
    bars = bars_on(io.StringIO(), terminal=False)
    bars.begin("certify", layers=1, samples=2)
    for head in (None, 0, 1):
        bars.record(certify_record(0, head))
    assert counts(bars)[-1] == ("samples × layers", 1, 2)
    bars.begin("predict", samples=2)
    for record in (prediction_record(0), layer_record(0), layer_record(1)):
        bars.record(replace(record, sample=0, tokens=4))
    assert counts(bars)[-1] == ("samples", 1, 2)


def test_a_part_without_samples_shows_one_bar():
    bars = bars_on(io.StringIO(), terminal=False)
    bars.begin("radius")
    for sample in (0, 3, 1):
        bars.record(attack_record(0, sample))
    assert counts(bars) == [("radius", 0, None)]


def test_a_terminal_sees_all_three_bars_with_the_time_left_and_a_file_sees_nothing():
    shown, silent = io.StringIO(), io.StringIO()
    a_run(bars_on(shown, terminal=True))
    a_run(bars_on(silent, terminal=False))
    assert silent.getvalue() == ""
    for words in ("attack, layer 1", "samples × layers", "steps", "1/2", "5/8", "1/3", "0:00:0"):
        assert words in shown.getvalue()

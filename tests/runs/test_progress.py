"""Bars: what they count, and that they are drawn on terminals alone."""

import io

from rich.console import Console

from robust_attn.runs.progress import RunBars


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
        for sample in (0, 1, 3, 2):
            bars.record(sample)
        bars.end_layer()
        bars.begin_layer("attack, layer 1, 8 tokens")
        bars.step()
        bars.record(0)


def test_layers_samples_and_steps_are_counted_and_the_next_layer_expects_the_steps_of_the_last():
    bars = bars_on(io.StringIO(), terminal=False)
    a_run(bars)
    assert counts(bars) == [("attack, layer 1, 8 tokens", 1, 2), ("samples", 1, 4), ("steps", 1, 3)]


def test_the_first_layer_counts_steps_without_knowing_how_many_come():
    bars = bars_on(io.StringIO(), terminal=False)
    bars.begin("attack", layers=2, samples=4)
    bars.begin_layer("attack, layer 0")
    assert counts(bars)[-1] == ("steps", 0, None)


def test_a_part_without_samples_shows_one_bar():
    bars = bars_on(io.StringIO(), terminal=False)
    bars.begin("radius")
    for sample in (0, 3, 1):
        bars.record(sample)
    assert counts(bars) == [("radius", 0, None)]


def test_a_terminal_sees_all_three_bars_with_the_time_left_and_a_file_sees_nothing():
    shown, silent = io.StringIO(), io.StringIO()
    a_run(bars_on(shown, terminal=True))
    a_run(bars_on(silent, terminal=False))
    assert silent.getvalue() == ""
    for words in ("attack, layer 1", "samples", "steps", "1/2", "1/4", "1/3", "0:00:0"):
        assert words in shown.getvalue()

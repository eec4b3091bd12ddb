"""Records of tasks on their way, and what the bars say meanwhile."""

import io

from rich.console import Console

from robust_attn.config import settings_from
from robust_attn.runs.folder import RunFolder
from robust_attn.runs.progress import RunBars
from robust_attn.tasks import samples_of, task_records
from tests.composed import QUICK, composed


def counts(bars: RunBars) -> list[tuple[float, float | None]]:
    return [(task.completed, task.total) for task in bars.progress.tasks if task.visible]


def test_bars_follow_layers_samples_and_steps(tmp_path):
    bars = RunBars(Console(file=io.StringIO()))
    settings = settings_from(composed(*QUICK, "model=toy", "attack.steps=5")).as_values()
    seen = [
        (record["layer"], record["sample"], counts(bars))
        for record in task_records(settings, RunFolder(tmp_path), bars)
    ]
    assert [(layer, sample) for layer, sample, _ in seen] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [[layers, samples] for _, _, (layers, samples, _) in seen] == [
        [(done, 2), (sample, 2)] for done in (0, 1) for sample in (1, 2)
    ]
    steps = [step for _, _, (_, _, step) in seen]
    assert steps[0][0] >= 5  # at least one evaluation for each step
    assert steps[0][1] is None  # nobody knows beforehand
    assert steps[2][1] == steps[1][0]  # as many as the layer before
    assert counts(bars)[0] == (2, 2)


def test_a_study_and_windows(tmp_path):
    bars = RunBars(Console(file=io.StringIO()))
    settings = settings_from(composed(*QUICK, "task=adversarial", "task.lengths=[2,8]")).as_values()
    assert len(list(task_records(settings, RunFolder(tmp_path), bars))) > 0
    assert len(counts(bars)) == 1
    assert samples_of(settings) == 2
    assert samples_of(settings_from(composed(*QUICK, "task=lipschitz", "task.windows=3")).as_values()) == 3

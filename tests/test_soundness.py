"""The soundness campaign in its short form: 150 layers and ten whole models; an hour is `task.minutes=60`."""

import pytest

from robust_attn.types import ExitStatus
from tests.composed import run


@pytest.mark.slow
def test_no_violation_in_a_short_campaign(tmp_path):
    outcome, _, summary, shown = run(
        tmp_path / "run", "task=soundness", "task.cases=150", "task.models=10", "task.first_seed=1000000"
    )
    assert outcome.status is ExitStatus.OK, shown
    assert summary["findings"]["cases"] == 160
    assert summary["findings"]["violations"] == 0
    assert summary["findings"]["comparisons"] > 150 * 18
    assert summary["findings"]["models"] == 10
    assert sum(name.startswith("certified_prediction.") for name in summary["findings"]["closest"]) == 7

"""Outcomes left in the folder of a sweep."""

from robust_attn.runs.sweep.outcomes import collect_outcomes, leave_outcome
from robust_attn.types import ExitStatus, Outcome


def test_outcomes_come_back_in_the_order_of_jobs_and_only_of_this_sweep(tmp_path):
    bad = Outcome(ExitStatus.VIOLATED, "broken")
    for number, outcome in ((10, bad), (2, Outcome(ExitStatus.OK))):
        leave_outcome(tmp_path, "mine", number, outcome)
    leave_outcome(tmp_path, "other", 0, bad)
    assert collect_outcomes(tmp_path, "mine") == [Outcome(ExitStatus.OK), bad]
    assert collect_outcomes(tmp_path, "mine") == []
    assert collect_outcomes(tmp_path, "other") == [bad]
    assert list(tmp_path.iterdir()) == []

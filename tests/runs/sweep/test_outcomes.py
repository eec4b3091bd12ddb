"""Outcomes left in the folder of a sweep."""

import pytest

from robust_attn.runs.sweep.outcomes import JobOutcome, collect_outcomes, leave_outcome
from robust_attn.types import ExitStatus, Outcome
from tests.runs.sweep.test_job import COMPLETE, write_run

BAD, GOOD = Outcome(ExitStatus.VIOLATED, "broken"), Outcome(ExitStatus.OK)


def test_outcomes_come_back_in_the_order_of_jobs_and_only_of_this_sweep(tmp_path):
    ten = JobOutcome(10, tmp_path / "x", ("tokens=4", "a='é'"), BAD)
    two, other = JobOutcome(2, tmp_path / "y", (), GOOD), JobOutcome(0, tmp_path / "x", (), BAD)
    for token, job in (("mine", ten), ("mine", two), ("other", other)):
        leave_outcome(tmp_path, token, job)
    assert collect_outcomes(tmp_path, "mine") == [two, ten]
    assert collect_outcomes(tmp_path, "mine") == []
    assert collect_outcomes(tmp_path, "other") == [other]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ended", [True, False])
def test_a_job_left_to_another_process_counts_as_it_ended_if_it_has(ended, tmp_path):
    summary = {**COMPLETE, "exit_status": 3, "message": "broken"}
    folder = write_run(tmp_path / "a", 1, summary if ended else None)
    waiting = JobOutcome(0, folder, (), Outcome(ExitStatus.FAILED, "left alone"), settled=False)
    leave_outcome(tmp_path, "mine", waiting)
    assert collect_outcomes(tmp_path, "mine") == [JobOutcome(0, folder, (), BAD) if ended else waiting]

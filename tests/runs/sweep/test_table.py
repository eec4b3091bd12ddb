"""The table over the jobs of a sweep."""

import re
from io import StringIO

from rich.console import Console

from robust_attn.runs.sweep.outcomes import JobOutcome
from robust_attn.runs.sweep.table import WORDS, jobs_table
from robust_attn.types import ExitStatus, Outcome
from tests.runs.sweep.test_job import COMPLETE, write_run


def test_every_job_has_a_row_with_its_settings_verdicts_and_end(tmp_path):
    write_run(tmp_path / "a", 1, {**COMPLETE, "verdicts": {"HOLDS": 3, "VACUOUS": 1}})
    ended, wrong = Outcome(ExitStatus.OK), Outcome(ExitStatus.WRONG_CONFIGURATION, "tokens")
    jobs = [
        (JobOutcome(0, tmp_path / "a", (), ended), "layers=[0]"),
        (JobOutcome(1, tmp_path / "nowhere", (), wrong), "tokens=0"),
        (JobOutcome(2, write_run(tmp_path / "c", 1), (), Outcome(ExitStatus.FAILED), settled=False), "tokens=4"),
    ]
    screen = Console(width=80, file=StringIO())
    screen.print(jobs_table(jobs))
    rows = [re.split(r"\s{2,}", line.strip()) for line in screen.file.getvalue().splitlines()]
    rows = [[*row[0].split(maxsplit=1), *row[1:]] for row in rows if row[0][:1].isdigit()]
    assert rows == [
        ["1", "layers=[0]", "3 HOLDS, 1 VACUOUS", "done", "a"],
        ["2", "tokens=0", "-", "wrong setting", "nowhere"],
        ["3", "tokens=4", "-", "under way elsewhere", "c"],
    ]


def test_there_is_a_word_for_every_status():
    assert set(WORDS) == set(ExitStatus)

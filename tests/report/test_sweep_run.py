from dataclasses import FrozenInstanceError

import pytest

from robust_attn.report.load import load_run
from robust_attn.report.sweep import sweep_of
from robust_attn.report.sweep_run import SweepRun
from robust_attn.types import Verdict

from .sample_runs import constant_record, record, search_record, write_run


def line(tmp_path, lines) -> SweepRun:
    return sweep_of(tmp_path, [load_run(write_run(tmp_path / "run", lines))]).runs[0]


def test_a_run_is_the_worst_of_its_records(tmp_path) -> None:
    run = line(tmp_path, [record(0), record(1), record(2, verdict="VIOLATED")])
    assert (run.records, run.checks, run.verdict) == (3, 3, Verdict.VIOLATED)
    assert run.certified == max(record(layer)["certified"]["output_change"] for layer in range(3))
    assert run.lipschitz is None
    with pytest.raises(FrozenInstanceError):
        run.records = 0  # type: ignore[misc]


def test_a_search_is_judged_but_its_gain_is_not_taken_for_an_output_change(tmp_path) -> None:
    run = line(tmp_path, [search_record(found=0.9, proved=2.5)])
    assert (run.checks, run.counts[Verdict.HOLDS]) == (1, 1)
    assert (run.certified, run.observed, run.lipschitz) == (None, None, 0.9)


def test_measurements_and_unknown_records_have_no_verdict(tmp_path) -> None:
    run = line(tmp_path, [constant_record(value=1.25), {"task": "new", "x": 1}])
    assert (run.records, run.checks, run.lipschitz) == (2, 0, 1.25)
    assert not any(run.counts.values())


def test_a_violation_in_a_record_of_any_kind_is_counted(tmp_path) -> None:
    run = line(tmp_path, [{"task": "new", "verdict": "VIOLATED"}, {"task": "new", "verdict": ["odd"]}])
    assert (run.checks, run.verdict) == (1, Verdict.VIOLATED)

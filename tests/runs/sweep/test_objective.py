"""The number that an optimising sweeper gets."""

import json

from robust_attn.runs.sweep.objective import objective_of, objectives


def test_the_number_of_a_job_is_its_largest_gain_or_its_loosest_certificate(tmp_path):
    lines = [{"observed": {"gain": g}, "tightness": t} for g, t in ((0.5, 0.9), (0.7, 0.4), (None, None))]
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert objective_of(tmp_path, "gain") is None  # not complete
    (tmp_path / "summary.json").write_text('{"status": "complete"}')
    assert objective_of(tmp_path, "gain") == 0.7
    assert objective_of(tmp_path, "tightness") == 0.4


def test_what_no_record_has_is_none():
    assert objectives([{"layer": 0}, {"observed": {"gain": 2.0}}]) == {"gain": 2.0, "tightness": None}
    assert objectives([]) == {"gain": None, "tightness": None}

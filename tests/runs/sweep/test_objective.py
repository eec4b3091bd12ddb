"""The number that an optimising sweeper gets."""

from robust_attn.records.kinds import SplittingRecord
from robust_attn.records.parts import Observed
from robust_attn.records.store import line_of
from robust_attn.runs.sweep.objective import objective_of, objectives
from tests.records.samples import attack_record, constant_record, search_record


def test_the_number_of_a_job_is_its_largest_gain_or_its_loosest_certificate(tmp_path):
    numbers = ((0.5, 0.9), (0.7, 0.4), (None, None))
    records = [attack_record(observed=Observed(gain=gain), tightness=tightness) for gain, tightness in numbers]
    (tmp_path / "records.jsonl").write_text("".join(map(line_of, records)))
    assert objective_of(tmp_path, "gain") is None  # not complete
    (tmp_path / "summary.json").write_text('{"status": "complete"}')
    assert objective_of(tmp_path, "gain") == 0.7
    assert objective_of(tmp_path, "tightness") == 0.4


def test_what_no_record_has_is_none():
    attack = attack_record(observed=Observed(gain=2.0), tightness=None)
    assert objectives([constant_record(), attack]) == {"gain": 2.0, "tightness": None}
    assert objectives([search_record(tightness=0.3)]) == {"gain": None, "tightness": 0.3}
    sliver = SplittingRecord(
        model="single_head", weights="given", series="sliver", mass=0.1, observed=Observed(gain=3.0)
    )
    assert objectives([attack, sliver]) == {"gain": 3.0, "tightness": None}
    assert objectives([]) == {"gain": None, "tightness": None}

"""The campaign from settings to files, and the mutation test of the checker: a planted wrong bound is caught."""

import json

import pytest

from robust_attn.certificates import layer as certificate
from robust_attn.config.settings import settings_from
from robust_attn.soundness import campaign, check
from robust_attn.soundness.case import Case
from robust_attn.types import ExitStatus, UserError
from tests.composed import composed, run

CASE = ("task=soundness", "task.cases=1", "task.models=0")
TIGHT = Case(1, attack="linear", samples=(0, 1), tokens=1, width=2, out=2, radius=0.1)
"""One token: the layer is affine, and the hull is attained."""


def test_a_campaign_of_one_case_and_another_that_goes_on(tmp_path):
    outcome, records, summary, shown = run(tmp_path / "first", *CASE)
    assert outcome.status is ExitStatus.OK
    assert [record["seed"] for record in records] == [0]
    assert "1 case drawn" in shown
    again = run(tmp_path / "second", *CASE, f"task.resume={tmp_path / 'first'}")
    assert [record.get("seed") for record in again[1]] == [None, 1]
    assert again[2]["findings"]["cases"] == 2
    assert summary["findings"]["closest"].keys() <= again[2]["findings"]["closest"].keys()


@pytest.mark.slow
def test_a_planted_bound_one_percent_too_small_is_caught_saved_shrunk_and_replayed(tmp_path, monkeypatch):
    sound = certificate._hull
    monkeypatch.setattr(certificate, "_hull", lambda *arguments: 0.99 * sound(*arguments))
    monkeypatch.setattr(check, "TRIES", 12)
    monkeypatch.setattr(campaign, "drawn", lambda seed: TIGHT if seed == 0 else pytest.fail("one case was asked for"))
    outcome, records, summary, _ = run(tmp_path / "run", *CASE)
    assert outcome.status is ExitStatus.VIOLATED
    assert "local.hull" in records[0]["violated"]
    assert summary["findings"]["violations"] >= 1
    (saved,) = (tmp_path / "run" / "violations").glob("*-local.hull.json")
    found = json.loads(saved.read_text())
    assert found["observed"] - found["rounding"] > found["allowed"]
    sizes = [(case["out"], case["width"], len(case["samples"])) for case in (found["case"], found["drawn_from"])]
    assert sizes == [(1, 1, 1), (2, 2, 2)]
    replay = ("task=soundness", f"task.replay={saved}")
    assert run(tmp_path / "again", *replay)[0].status is ExitStatus.VIOLATED
    monkeypatch.setattr(certificate, "_hull", sound)
    assert run(tmp_path / "mended", *replay)[0].status is ExitStatus.OK


@pytest.mark.parametrize(
    "wrong",
    ["task.cases=null", "task.cases=0", "task.minutes=-1", "task.minutes=nan", "task.first_seed=-1"],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(UserError, match=r"task[.]"):
        settings_from(composed("task=soundness", wrong))


@pytest.mark.parametrize("wrong", ["task.replay=/nowhere.json", "task.resume=/nowhere"])
def test_what_is_not_there_is_a_wrong_configuration(tmp_path, wrong):
    assert run(tmp_path / "run", "task=soundness", wrong)[0].status is ExitStatus.WRONG_CONFIGURATION

"""Whole runs of task=predict on the digits: records from both sides, and exit status 3 where they cross."""

import pytest

from robust_attn.config.settings import settings_from
from robust_attn.pipeline import predictions, promises
from robust_attn.predictions.certificate import PredictionCertificate
from robust_attn.types import ExitStatus, UserError
from tests.composed import composed, run

DIGIT = (
    "task=predict", "model=vit", "data=digits", "attack=none", "budget=frobenius", "samples=1", "task.watch=false",
    "task.flip=[move]", "task.steps=4", "task.restarts=0", "task.accuracy=0.5",
)  # fmt: skip


@pytest.mark.parametrize(
    ("radius", "status", "verdict"), [(1e-6, ExitStatus.OK, "HOLDS"), (1e6, ExitStatus.VIOLATED, "VIOLATED")]
)
def test_a_flip_inside_a_certified_radius_is_exit_status_3(radius, status, verdict, tmp_path, monkeypatch):
    made = PredictionCertificate(radius, 1.0, 1e-9, {"first": 0.5, "layer0.mlp": 0.1}, 7, "HOLDS")
    monkeypatch.setattr(promises, "certified_prediction", lambda *_, **__: made)
    outcome, (record,), summary, _ = run(tmp_path / "run", *DIGIT, "task.certify=[all]")
    assert outcome.status is status
    assert record["verdict"] == verdict
    assert record["certified_radius"] == {"all": radius}
    assert 0 < record["flip_radius"]["move"] < 10
    assert record["shares"] == {"first": 0.5, "layer0.mlp": 0.1}
    assert record["failure_probability"] == 1e-9
    assert record["label"] in range(10)
    assert record["attacked"] is None
    assert record["seconds"] > 0
    assert summary["findings"]["smallest_certified_radius"] == {"all": radius}


def test_smoothing_is_told_apart(tmp_path):
    settings = ("task.certify=[]", "task.flip=[]", "task.smoothing_samples=100", "task.smoothing_sigma=0.05")
    outcome, (record,), _, _ = run(tmp_path / "run", *DIGIT, *settings)
    assert outcome.status is ExitStatus.OK
    assert record["verdict"] is None
    assert record["smoothed"]["sigma"] == 0.05
    assert record["certified_radius"]["smoothing"] == pytest.approx(0.05 * 1.5003, rel=0.01)  # Phi^-1(0.001^{1/100})


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("task.flip=[jump]", "task.flip must be one of move, one_word, split, typed, got 'jump'"),
        ("task.certify=[some]", "task.certify must be one of all, one_word, interval, product"),
        ("task.smoothing_sigma=0", "task.smoothing_sigma must be above 0"),
        ("task.context=1", "task.context must be at least 2"),
        ("task.sketch=3", "task.sketch must be at least 16"),
    ],
)
def test_wrong_settings_are_one_sentence(override, words):
    with pytest.raises(UserError, match=words.replace("[", r"\[")):
        settings_from(composed("task=predict", override))


SHORT = ("samples=2", "task.certify=[interval]", "task.flip=[]")


@pytest.mark.slow
def test_a_run_that_goes_on_keeps_what_was_finished(tmp_path, monkeypatch):
    whole = run(tmp_path / "whole", *DIGIT, *SHORT)[1]
    begun = tmp_path / "begun"
    begun.mkdir()
    lines = (tmp_path / "whole" / "records.jsonl").read_text().splitlines()
    (begun / "records.jsonl").write_text(lines[0] + "\n" + lines[1][:50])
    asked = []
    one = predictions.ThroughModel.prediction
    monkeypatch.setattr(
        predictions.ThroughModel,
        "prediction",
        lambda self, victim, reading, *rest, **more: (
            asked.append(reading.origin.sample) or one(self, victim, reading, *rest, **more)
        ),
    )
    _, again, _, shown = run(tmp_path / "again", *DIGIT, *SHORT, f"task.resume={begun}")
    assert asked == [1]
    assert "1 of 2 samples are kept" in shown
    assert again[0] == whole[0]
    drop = {"seconds", "proof"}
    assert {k: v for k, v in again[1].items() if k not in drop} == {k: v for k, v in whole[1].items() if k not in drop}


def test_nothing_is_kept_of_a_run_with_other_settings(tmp_path):
    (tmp_path / "begun" / ".hydra").mkdir(parents=True)
    (tmp_path / "begun" / ".hydra" / "config.yaml").write_text("task: {steps: 5, sketch: null}\ntokens: 6\n")
    (tmp_path / "begun" / "records.jsonl").write_text("")
    outcome = run(tmp_path / "run", *DIGIT, *SHORT, f"task.resume={tmp_path / 'begun'}")[0]
    assert outcome.status is ExitStatus.WRONG_CONFIGURATION
    assert "other settings (task.steps)" in outcome.message

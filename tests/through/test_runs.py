"""Whole runs of the tasks that attack a classifier, and of torchattacks by name on a layer."""

import pytest

from robust_attn.attacks.mass_split import Masses, MassSplit
from robust_attn.attacks.move import Move
from robust_attn.attacks.torchattacks_bridge import Torchattack
from robust_attn.config.settings import settings_from
from robust_attn.types import ExitStatus, UserError
from tests.composed import composed, run


@pytest.mark.slow
def test_the_real_detector_is_flipped_by_moving_its_embeddings(tmp_path):
    outcome, records, summary, shown = run(
        tmp_path / "run", "task=through_model", "model=injection", "samples=1", "tokens=8", "layers=[0,5]",
        "attack.steps=6", "attack.restarts=0", "budget.radius=0.08", "task.accuracy=0.3", "task.flip=[move]",
        "task.certify=[interval]", "task.steps=6", "task.restarts=0",
    )  # fmt: skip
    assert outcome.status is ExitStatus.OK
    prediction, *layers = records
    assert prediction["kind"] == "prediction"
    assert prediction["text"].startswith("[CLS]")
    assert 0 < prediction["flip_radius"]["move"] < 1
    assert prediction["certified_radius"] == {"interval": None}  # no wonder: intervals double layer by layer
    assert prediction["verdict"] == "UNKNOWN"
    assert prediction["margin"] > prediction["attacked"]["margin"]
    assert [record["layer"] for record in layers] == [0, 5]
    assert all(record["observed"]["output_change"] <= record["certified"]["output_change"] for record in layers)
    assert summary["status"] == "complete"
    assert "The prediction was flipped" in shown
    assert "Prediction by prediction" in shown
    report = (tmp_path / "run" / "report.html").read_text()
    assert "The prediction was flipped" in report
    assert "predict" in report


def test_a_vit_under_pgd(tmp_path):
    outcome, records, _, shown = run(
        tmp_path / "run", "task=predict", "model=vit", "attack=torchattacks", "attack.name=PGD",
        "attack.steps=5", "budget=per_token", "budget.radius=0.1", "samples=1", "layers=[0,3]", "task.certify=[]",
        "task.flip=[]",
    )  # fmt: skip
    assert outcome.status is ExitStatus.OK
    assert [record["layer"] for record in records] == [None, 0, 3]
    assert {record["attack"] for record in records} == {"PGD"}
    assert "largest over the tokens" in shown


@pytest.mark.slow
def test_repeated_tokens(tmp_path):
    outcome, records, _, shown = run(
        tmp_path / "run", "task=repeat_tokens", "model=injection", "samples=1", "tokens=6", "layers=[2]",
        "task.repeats=1", "task.candidates=2", "attack.steps=2", "attack.restarts=0",
    )  # fmt: skip
    assert outcome.status is ExitStatus.OK
    assert [record["kind"] for record in records] == ["repeat", "repeat_layer"]
    assert records[0]["token"] in records[0]["text"]
    assert "Repetition by repetition" in shown
    assert "repeat_tokens" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize("budget", ["wasserstein", "per_token"])
def test_torchattacks_by_name_on_a_layer(budget, tmp_path):
    outcome, records, summary, _ = run(
        tmp_path / "run", "model=toy", "attack=torchattacks", "attack.name=APGD", "attack.steps=4", f"budget={budget}",
        "budget.radius=0.001",
    )  # fmt: skip
    assert outcome.status is ExitStatus.OK
    assert {record["attack"] for record in records} == {"APGD"}
    assert summary["attack"] == "APGD"
    assert all(0 < r["observed"]["output_change"] <= r["certified"]["output_change"] for r in records)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("model=toy",), "toy of random:0 is not a classifier"),
        (("model=vit", "attack=move"), "attack=torchattacks"),
        (("model=vit", "attack=linear"), "move, mass_split or torchattacks, not by linear"),
        (("model=injection", "attack=mass_split", "attack.tokens=3"), "leave attack.tokens at all, got 3"),
        (("model=injection", "attack=mass_split", "budget=frobenius"), "budget=wasserstein alone, not in frobenius"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(overrides, words, tmp_path):
    outcome, records, _, _ = run(tmp_path / "run", "task=through_model", *overrides)
    assert outcome.status is ExitStatus.WRONG_CONFIGURATION
    assert words in outcome.message
    assert records == []


def test_images_have_no_tokens_to_repeat(tmp_path):
    overrides = ("task=repeat_tokens", "model=vit", "attack=torchattacks")
    outcome, _, _, _ = run(tmp_path / "run", *overrides)
    assert outcome.status is ExitStatus.WRONG_CONFIGURATION
    assert "no tokens that could be repeated" in outcome.message


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("attack=torchattacks", "attack.name=PGDL3"), r"no attack 'PGDL3'; suitable are APGD, .*VNIFGSM"),
        (
            ("attack=torchattacks", "attack.name=CW"),
            "cannot attack a layer, because it looks for",
        ),
        (("attack=torchattacks", "attack.suite=foolbox"), "attack.suite must be one of torchattacks"),
        (("task=through_model", "task.accuracy=0"), "task.accuracy must be between 0 and 1"),
        (("task=repeat_tokens", "task.repeats=0"), "task.repeats must be at least 1"),
        (("task=repeat_tokens", "task.candidates=0"), "task.candidates must be at least 1"),
    ],
)
def test_wrong_settings_are_one_sentence(overrides, words):
    with pytest.raises(UserError, match=words) as caught:
        settings_from(composed(*overrides))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "attack"),
    [
        (
            ("attack=torchattacks", "attack.name=PGD", "attack.steps=7", "attack.step_size=0.5"),
            Torchattack("PGD", 7, 0.5),
        ),
        (("attack=move", "attack.steps=7", "attack.restarts=2"), Move(7, 2)),
        (("attack=mass_split", "attack.steps=7", "attack.restarts=0"), MassSplit(2, 7, 0)),
        (("attack=mass_split", "attack.masses=sliver"), MassSplit(masses=Masses.SLIVER)),
    ],
)
def test_settings_reach_their_attack(overrides, attack):
    assert settings_from(composed(*overrides)).attack.made() == attack

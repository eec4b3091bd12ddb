import shlex
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser

from robust_attn.report.facts import (
    command_of,
    flattened,
    has_random_weights,
    sample_texts,
    setting_of,
    state_note,
    text_of,
)
from robust_attn.report.load import load_run

from .sample_runs import record, write_run


def test_the_command_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path / "run", overrides=("layers=[0,5]", "data.path=my file.txt")))
    assert command_of(run) == "python -m robust_attn 'layers=[0,5]' 'data.path=my file.txt'"


def test_the_setting_comes_from_the_records_where_there_is_no_summary(tmp_path: Path) -> None:
    lines = [record(budget={"kind": "frobenius", "radius": 0.5}, model="vit")]
    setting = setting_of(load_run(write_run(tmp_path / "run", lines, finished=False)))
    assert (setting.budget, setting.radius, setting.noun) == ("frobenius", 0.5, "image")


def test_a_home_folder_in_the_command_is_read_by_hydra(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path / "run", overrides=("model.weights=~/w", "tokens=8")))
    words = shlex.split(command_of(run))
    assert words[3:] == ["model.weights='~/w'", "tokens=8"]
    assert OverridesParser.create().parse_override(words[3]).value() == "~/w"


def test_radii_of_records_come_before_what_was_asked_for(tmp_path: Path) -> None:
    """attack=duplicate says itself what it needs; what is promised for all holds at the smallest."""
    lines = [record(budget={"kind": "wasserstein", "radius": radius}) for radius in (1.7, 1.5)]
    assert setting_of(load_run(write_run(tmp_path / "run", lines))).radius == 1.5


def test_weights_are_called_random_only_where_they_are(tmp_path: Path) -> None:
    drawn = load_run(write_run(tmp_path / "a", [record(weights="random:0")]))
    trained = load_run(write_run(tmp_path / "b", [record(weights="wheel:x==1")], finished=False))
    assert has_random_weights(drawn) == str(drawn.summary["weights"]).startswith("random")
    assert not has_random_weights(trained)


def test_a_complete_undamaged_run_needs_no_note(tmp_path: Path) -> None:
    assert state_note(load_run(write_run(tmp_path / "run"))) == ""


def test_settings_are_flattened_as_yaml_spells_them() -> None:
    assert flattened({"a": {"b": True, "c": None}, "d": [1], "e": {}}) == {
        "a.b": "true",
        "a.c": "null",
        "d": "[1]",
        "e": "{}",
    }
    assert text_of({"kind": "wasserstein", "radius": 0.01}) == "wasserstein 0.01"
    assert text_of({"name": "bert", "layers": 12}) == "bert"


def test_texts_are_shown_once_per_sample_and_shortened(tmp_path: Path) -> None:
    lines = [record(layer, sample, text="x" * 1000) for layer in range(2) for sample in range(3)]
    texts = sample_texts(load_run(write_run(tmp_path / "run", lines)), limit=2, characters=10)
    assert texts == (("0", "x" * 9 + "…"), ("1", "x" * 9 + "…"))

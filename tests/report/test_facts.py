from pathlib import Path

from robust_attn.report.facts import command_of, flattened, sample_texts, setting_of, state_note, text_of
from robust_attn.report.load import load_run

from .sample_runs import record, write_run


def test_the_command_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path / "run", overrides=("layers=[0,5]", "data.path=my file.txt")))
    assert command_of(run) == "python -m robust_attn 'layers=[0,5]' 'data.path=my file.txt'"


def test_the_setting_comes_from_the_records_where_there_is_no_summary(tmp_path: Path) -> None:
    lines = [record(budget={"kind": "frobenius", "radius": 0.5}, model="vit")]
    setting = setting_of(load_run(write_run(tmp_path / "run", lines, finished=False)))
    assert (setting.budget, setting.radius, setting.noun) == ("frobenius", 0.5, "image")


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

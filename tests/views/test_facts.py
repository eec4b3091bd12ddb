"""What a run says about itself."""

import shlex
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser

from robust_attn.views.facts import (
    command_of,
    flattened,
    has_random_weights,
    input_noun,
    overrides_of,
    state_note,
    text_of,
)
from tests.records.samples import attack_record

from .runs import run_of


def test_the_command_can_be_pasted_into_a_shell():
    run = run_of(overrides=("layers=[0,5]", "data.path=my file.txt"))
    assert command_of(run) == "python -m robust_attn 'layers=[0,5]' 'data.path=my file.txt'"


def test_a_home_folder_is_written_as_hydra_reads_it():
    run = run_of(overrides=(f"model.weights={Path.home()}/w", "tokens=8"))
    assert overrides_of(run)[0] == "model.weights=~/w"
    words = shlex.split(command_of(run))
    assert words[3:] == ["model.weights='~/w'", "tokens=8"]
    assert OverridesParser.create().parse_override(words[3]).value() == "~/w"


def test_what_a_sample_is_comes_from_the_records_where_there_is_no_summary():
    assert input_noun(run_of(attack_record(model="vit"), summary=None)) == "image"
    assert input_noun(run_of(config={"data": {"name": "gaussian"}})) == "token set"
    assert input_noun(run_of()) == "text"


def test_weights_are_called_random_only_where_they_are():
    assert has_random_weights(run_of(attack_record(weights="random:0")))
    assert not has_random_weights(run_of(attack_record(), summary=None))


def test_a_complete_undamaged_run_needs_no_note():
    assert state_note(run_of()) == ""
    assert "ended as “odd”" in state_note(run_of(summary={"status": "odd"}))
    assert "2 lines of records.jsonl could not be read" in state_note(run_of(damaged_lines=2))


def test_settings_that_refer_to_others_have_their_values():
    config = {"tolerance": 0.1, "task": {"tolerance": "${tolerance}", "other": "${elsewhere}"}}
    assert flattened(config) == {"tolerance": "0.1", "task.tolerance": "0.1", "task.other": "${elsewhere}"}


def test_settings_are_flattened_as_yaml_spells_them():
    assert flattened({"a": {"b": True, "c": None}, "d": [1], "e": {}}) == {
        "a.b": "true",
        "a.c": "null",
        "d": "[1]",
        "e": "{}",
    }
    assert flattened({"home": f"{Path.home()}/x"}) == {"home": "~/x"}
    assert text_of({"kind": "wasserstein", "radius": 0.01}) == "wasserstein 0.01"
    assert text_of({"name": "bert", "layers": 12}) == "bert"

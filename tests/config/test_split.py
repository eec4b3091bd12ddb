"""Layers and samples as jobs, in the words of Hydra."""

import json

import pytest

from robust_attn.config.request import request_of
from robust_attn.config.settings import expect_used, settings_from
from robust_attn.types import UserError
from tests.composed import composed


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        (["layers=[0,5]", "sweep.jobs=layers"], ["layers=[0],[5]"]),
        (["layers=2", "sweep.jobs=layers"], ["layers=[2]"]),
        (["model=smollm2", "sweep.jobs=layers"], ["model=smollm2", f"layers={','.join(f'[{i}]' for i in range(30))}"]),
        (["model=gpt2", "sweep.jobs=[layers]"], ["model=gpt2", f"layers={','.join(f'[{i}]' for i in range(12))}"]),
        (["samples=3", "sweep.jobs=samples"], ["samples=3", "only=[0],[1],[2]"]),
        (["sweep.jobs=samples"], ["only=[0],[1],[2],[3]"]),
        (["layers=[1,2]", "samples=2", "sweep.jobs=layers,samples"], ["samples=2", "layers=[1],[2]", "only=[0],[1]"]),
    ],
)
def test_layers_and_samples_become_jobs(typed, read):
    assert request_of(["-m", *typed]).arguments == ["-m", *read]


def test_a_folder_says_how_many_layers_it_has(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"n_layer": 2}))
    typed = ["-m", "model=auto", f"model.weights={tmp_path}", "sweep.jobs=layers"]
    assert request_of(typed).arguments[-1] == "layers=[0],[1]"


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["sweep.jobs=layers"], ["needs -m"]),
        (["-m", "sweep.jobs=heads"], ["layers,samples", "heads"]),
        (["-m", "sweep.jobs="], ["layers,samples"]),
        (["-m", "sweep.jobs=layers", "layers=[0],[1]"], ["takes layers=[0,5] apart"]),
        (["-m", "sweep.jobs=layers", "model=auto", "model.weights=owner/name"], ["give layers=[0,1,2]"]),
        (["-m", "sweep.jobs=layers", "model=bert", "model.sizes.num_hidden_layers=2"], ["give layers=[0,1,2]"]),
        (["-m", "sweep.jobs=layers", "model=bert,gpt2"], ["give layers=[0,1,2]"]),
        (["-m", "sweep.jobs=samples", "samples=2,4"], ["one number of samples"]),
        (["-m", "sweep.jobs=samples", "task=lipschitz"], ["task=lipschitz counts its samples itself"]),
        (["-m", "sweep.jobs=samples", "task=predict"], ["looks at the layers"]),
        (["-m", "sweep.jobs=samples", "task=attack,certify"], ["one task"]),
    ],
)
def test_what_cannot_be_taken_apart_is_one_sentence(typed, words):
    with pytest.raises(UserError) as caught:
        request_of(typed)
    assert all(word in str(caught.value) for word in words)


def test_samples_that_a_task_would_ignore_are_refused():
    settings = settings_from(composed("task=predict", "model=injection", "only=[0]"))
    with pytest.raises(UserError, match="would be ignored"):
        expect_used(settings, ["only=[0]"])


@pytest.mark.parametrize("wrong", ["only=first", "only=[-1]", "only=[0.5]"])
def test_numbers_of_samples_are_whole(wrong):
    with pytest.raises(UserError, match="only must be"):
        settings_from(composed(wrong))

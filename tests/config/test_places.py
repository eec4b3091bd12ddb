"""Names of jobs by their settings, and what a sweep says of its jobs."""

from functools import cache

import pytest
from omegaconf import OmegaConf

from robust_attn.config.places import Plan, hash_at, hash_of
from robust_attn.runs.sweep.job import SETTINGS
from tests.composed import composed

CHOICES = [
    ("model=toy",),
    ("task=certify", "tolerance=0.1"),  # one setting refers to another
    ("task=lipschitz", "model=bert", "layers=[0,5]"),
    ("task=soundness", "task.minutes=null"),
    ("data=text", "data.path='é: 1e3'", "budget.radius=1"),
    ("data=text",),  # data.path is missing
    ("attack=torchattacks", "certificate.seed=3"),
    ("attack=mass_split", "seed=12", "budget=per_token"),
]


def written(folder, config):
    """As Hydra writes the settings of a job."""
    (folder / SETTINGS).mkdir()
    (folder / SETTINGS / "config.yaml").write_text(OmegaConf.to_yaml(config), encoding="utf-8")
    return folder


@cache
def chosen(*words):
    return composed(*words)


@pytest.mark.parametrize("choice", CHOICES, ids=" ".join)
def test_settings_read_back_from_a_run_folder_have_the_same_hash(choice, tmp_path):
    config = chosen(*choice)
    assert hash_at(written(tmp_path, config)) == hash_of(config)


def test_other_settings_have_another_hash_and_the_same_in_other_words_have_not():
    assert len({hash_of(chosen(*choice)) for choice in CHOICES}) == len(CHOICES)
    same = [("task=certify", "task.tolerance=0.1"), ("tokens=32", "task=certify", "tolerance=1e-1"), CHOICES[1]]
    # `tolerance` itself is a setting: where only that of the task was given, it is another configuration
    assert [hash_of(chosen(*words)) == hash_of(chosen(*CHOICES[1])) for words in same] == [False, True, True]


def test_the_hash_is_of_settings_alone_and_the_same_on_every_machine():
    plain = OmegaConf.create({"b": 1, "a": {"x": [1, 2.5, None], "y": "${b}"}})
    with_hydra = OmegaConf.create({"hydra": {"job": {"num": 3}}, "a": {"y": 1, "x": [1, 2.5, None]}, "b": 1})
    assert hash_of(plain) == hash_of(with_hydra) == "eeb15c73"  # of sha256sum, of the JSON with sorted keys
    full = composed("model=toy", return_hydra_config=True)
    assert full.hydra.sweep.subdir == f"move-toy-{hash_of(composed('model=toy'))}"


def test_settings_that_cannot_be_resolved_have_a_name_too():
    assert hash_of(OmegaConf.create({"a": "${nowhere}"})) != hash_of(OmegaConf.create({"a": "${elsewhere}"}))


@pytest.mark.parametrize("content", [None, "a: [", "- a", "\0"])
def test_where_no_settings_can_be_read_there_is_no_hash(content, tmp_path):
    if content is not None:
        (tmp_path / SETTINGS).mkdir()
        (tmp_path / SETTINGS / "config.yaml").write_text(content)
    assert hash_at(tmp_path) is None


def plan(*typed, sweeper="hydra._internal.core_plugins.basic_sweeper.BasicSweeper", **more):
    return Plan.of(OmegaConf.create({"overrides": {"task": [*typed]}, "sweeper": {"_target_": sweeper, **more}}))


def test_a_job_is_told_by_its_number_and_what_is_swept():
    told = plan("model=toy", "attack=move,random", "+tokens=range(4,8)", "layers=[0,1]")
    assert told == Plan(("attack", "+tokens"), 8)
    overrides = ["model=toy", "attack=random", "+tokens=5", "layers=[0,1]"]
    assert told.line(2, overrides) == "job 3 of 8: attack=random +tokens=5"


def test_what_a_sweeper_counts_itself_has_no_number():
    assert plan("tokens=choice(4,5)", sweeper="x.OptunaSweeper") == Plan(("tokens",), None)
    assert plan("model=glob(*)") == Plan(("model",), None)
    assert Plan(("tokens",), None).line(0, ["tokens=4"]) == "job 1: tokens=4"
    assert plan("tokens=4") == Plan((), 1)
    assert plan("tokens=4").line(0, ["tokens=4"]) == "job 1 of 1: tokens=4"
    assert plan("tokens=4", params={"attack": "move,random"}) == Plan(("attack",), 2)

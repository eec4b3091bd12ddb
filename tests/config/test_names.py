"""Names of run folders, as Hydra resolves them."""

import re

import pytest

from robust_attn.config.places import settings_hash
from tests.composed import composed

NAMES = {
    "attack": "mass_split-toy",
    "certify": "certify-toy",
    "lipschitz": "lipschitz-toy",
    "worst_case": "worst_case-toy",
    "radius": "radius",
    "mean_field": "mean_field",
    "predict": "predict-mass_split-toy",
    "through_model": "predict-mass_split-toy",
    "soundness": "soundness",
}


@pytest.mark.parametrize("task", sorted(NAMES))
def test_a_folder_is_named_by_what_is_really_used(task):
    """A study of one head has neither a model nor an attack, and a certificate has no attack."""
    config = composed(f"task={task}", "model=toy", "attack=mass_split", return_hydra_config=True)
    assert re.fullmatch(rf"runs/\d{{4}}-\d\d-\d\d/\d\d-\d\d-\d\d-{NAMES[task]}", config.hydra.run.dir)
    assert re.fullmatch(rf"{NAMES[task]}-[0-9a-f]{{8}}", config.hydra.sweep.subdir)


def test_the_hash_of_settings_knows_no_order_but_every_value():
    assert settings_hash({"a": 1, "b": [1, {"x": None}]}) == settings_hash({"b": [1, {"x": None}], "a": 1})
    others = [{"a": 1}, {"a": 1.0}, {"a": "1"}, {"a": [1]}, {"b": 1}, {"a": None}, {"a": True}]
    assert len({settings_hash(each) for each in others}) == len(others)

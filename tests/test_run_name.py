"""Names of run folders, as Hydra resolves them."""

import re

import pytest
from omegaconf import OmegaConf

from robust_attn.build import STUDIES
from robust_attn.config import choices
from robust_attn.run_name import ATTACKS_WHOLE_MODEL, STUDIES_OF_ONE_HEAD, run_name
from robust_attn.sweep.request import DEFAULT_SUBDIR
from tests.composed import composed

NAMES = {
    "attack": "mass_split-toy",
    "certify": "certify-toy",
    "lipschitz": "lipschitz-toy",
    "worst_case": "worst_case-toy",
    "radius": "radius",
    "mean_field": "mean_field",
    "through_model": "through_model-mass_split-toy",
}


@pytest.mark.parametrize("task", sorted(NAMES))
def test_a_folder_is_named_by_what_is_really_used(task):
    """A study of one head has neither a model nor an attack, and a certificate has no attack."""
    config = composed(f"task={task}", "model=toy", "attack=mass_split", return_hydra_config=True)
    assert re.fullmatch(rf"runs/\d{{4}}-\d\d-\d\d/\d\d-\d\d-\d\d-{NAMES[task]}", config.hydra.run.dir)
    OmegaConf.update(config, "hydra.job.num", 3)
    assert config.hydra.sweep.subdir == f"3-{NAMES[task]}"


def test_a_resumed_sweep_names_its_jobs_in_the_same_way():
    config = composed(return_hydra_config=True)
    assert OmegaConf.to_container(config.hydra.sweep, resolve=False)["subdir"] == DEFAULT_SUBDIR


def test_the_tasks_are_those_that_there_are():
    assert set(STUDIES_OF_ONE_HEAD) == set(STUDIES)
    tasks = choices("task")
    assert set(ATTACKS_WHOLE_MODEL) == {name for name, task in tasks.items() if "bfloat16" not in task.dtypes}
    assert len({run_name(task, "a", "m") for task in tasks}) == len(tasks)

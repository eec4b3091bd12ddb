from robust_attn.attacks.mass_split import MassSplit
from robust_attn.attention.mask import Mask
from robust_attn.budget import PerToken
from robust_attn.build import (
    ATTACKS,
    STUDIES,
    attack_from,
    budget_from,
    lipschitz_study_from,
    source_from,
    study_from,
)
from robust_attn.config import choices
from robust_attn.data.settings import Sphere
from robust_attn.experiments.adversarial import Adversarial
from robust_attn.experiments.lipschitz import LipschitzStudy


def test_names_are_those_of_the_schema():
    assert set(ATTACKS) == set(choices("attack"))


def test_settings_reach_their_object():
    assert attack_from({"name": "mass_split", "copies": 3, "steps": 7, "restarts": 0}) == MassSplit(3, 7, 0)
    assert budget_from({"kind": "per_token", "radius": 0.5}) == PerToken(0.5)
    assert source_from({"name": "sphere", "radius": 2.0}) == Sphere(2.0)


def test_studies_are_tasks_and_get_their_settings():
    assert set(STUDIES) <= set(choices("task"))
    values = {"name": "adversarial", "A": [[-1.0]], "radius": 2.0, "lengths": [2, 4]}
    assert study_from(values) == Adversarial([[-1.0]], 2.0, [2, 4])
    values = {"name": "lipschitz", "lengths": [2, 4], "windows": 3, "heads": True, "radii": [1.0], "mask": "causal"}
    assert lipschitz_study_from(values) == LipschitzStudy(True, (1.0,), Mask.CAUSAL)
    assert lipschitz_study_from(values | {"mask": "model"}).mask is None

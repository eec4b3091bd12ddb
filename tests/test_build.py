from robust_attn.attacks.mass_split import MassSplit
from robust_attn.budget import PerToken
from robust_attn.build import ATTACKS, SOURCES, attack_from, budget_from, source_from
from robust_attn.config import SCHEMAS
from robust_attn.data.source import Sphere


def test_names_are_those_of_the_schema():
    assert set(ATTACKS) == set(SCHEMAS["schema/attack"])
    assert set(SOURCES) == set(SCHEMAS["schema/data"])


def test_settings_reach_their_object():
    assert attack_from({"name": "mass_split", "copies": 3, "steps": 7, "restarts": 0}) == MassSplit(3, 7, 0)
    assert budget_from({"kind": "per_token", "radius": 0.5}) == PerToken(0.5)
    assert source_from({"name": "sphere", "radius": 2.0}) == Sphere(2.0)

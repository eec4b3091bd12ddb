"""Objects from validated settings: budgets, attacks and data sources by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from robust_attn.attacks.attack import Attack
from robust_attn.attacks.baseline import NoAttack, RandomMove
from robust_attn.attacks.mass_split import MassSplit
from robust_attn.attacks.move import Linear, Move
from robust_attn.budget import BUDGETS, Budget
from robust_attn.data import source

ATTACKS: dict[str, Callable[..., Attack]] = {
    attack.name: attack for attack in (Move, MassSplit, Linear, RandomMove, NoAttack)
}
SOURCES: dict[str, Callable[..., source.Source]] = {
    "prose": source.Prose,
    "text": source.TextFile,
    "hub": source.HubText,
    "gaussian": source.Gaussian,
    "sphere": source.Sphere,
    "digits": source.Digits,
    "images": source.ImageFolder,
}


def budget_from(values: dict[str, Any]) -> Budget:
    """The budget of the kind named."""
    return BUDGETS[values["kind"]](float(values["radius"]))


def attack_from(values: dict[str, Any]) -> Attack:
    """The attack named, with its own settings."""
    return ATTACKS[values["name"]](**_own(values))


def source_from(values: dict[str, Any]) -> source.Source:
    """The data source named, with its own settings."""
    return SOURCES[values["name"]](**_own(values))


def _own(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != "name"}

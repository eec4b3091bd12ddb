"""Objects from validated settings: budgets, attacks and data sources by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from robust_attn.attacks.attack import Attack
from robust_attn.attacks.baseline import NoAttack, RandomMove
from robust_attn.attacks.mass_split import MassSplit
from robust_attn.attacks.move import Linear, Move
from robust_attn.attention.mask import Mask
from robust_attn.budget import BUDGETS, Budget
from robust_attn.data import source
from robust_attn.experiments.adversarial import Adversarial
from robust_attn.experiments.lipschitz import LipschitzStudy
from robust_attn.experiments.mass_splitting import MassSplitting
from robust_attn.experiments.mean_field import MeanField
from robust_attn.experiments.radius import Radius
from robust_attn.experiments.study import Study
from robust_attn.experiments.unbalanced import Unbalanced

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

STUDIES: dict[str, Callable[..., Study]] = {
    study.name: study for study in (Adversarial, Radius, MeanField, MassSplitting, Unbalanced)
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


def study_from(values: dict[str, Any]) -> Study:
    """The study of a single head named by a task, with its own settings."""
    return STUDIES[values["name"]](**_own(values))


def lipschitz_study_from(values: dict[str, Any]) -> LipschitzStudy:
    """What the lipschitz task measures; `mask: model` leaves every layer its own."""
    mask = None if values["mask"] == "model" else Mask(values["mask"])
    return LipschitzStudy(heads=values["heads"], radii=tuple(values["radii"]), mask=mask)


def _own(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != "name"}

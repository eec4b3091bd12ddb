"""Objects from validated settings: budgets, attacks and data sources by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from robust_attn.attacks.attack import Attack
from robust_attn.attacks.baseline import NoAttack, RandomMove
from robust_attn.attacks.duplicate import Duplicate
from robust_attn.attacks.mass_split import MassSplit
from robust_attn.attacks.move import Linear, Move
from robust_attn.attacks.torchattacks_bridge import Torchattack
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.budget import BUDGETS, Budget, TokenRadius
from robust_attn.config import choices
from robust_attn.data.source import Source
from robust_attn.experiments.adversarial import Adversarial
from robust_attn.experiments.lipschitz import LipschitzStudy
from robust_attn.experiments.mass_splitting import MassSplitting
from robust_attn.experiments.mean_field import MeanField
from robust_attn.experiments.radius import Radius
from robust_attn.experiments.study import Study
from robust_attn.experiments.unbalanced import Unbalanced
from robust_attn.pipeline import CertificateOptions
from robust_attn.types import FieldError, UserError

ATTACKS: dict[str, Callable[..., Attack]] = {
    **{attack.name: attack for attack in (Move, MassSplit, Duplicate, Linear, RandomMove, NoAttack)},
    "torchattacks": Torchattack,
}
STUDIES: dict[str, Callable[..., Study]] = {
    study.name: study for study in (Adversarial, Radius, MeanField, MassSplitting, Unbalanced)
}


@contextmanager
def told_as(group: str) -> Iterator[None]:
    """What objects say about their fields, said about the settings of a group."""
    try:
        yield
    except FieldError as error:
        raise error.of_setting(group) from error


def budget_from(values: dict[str, Any], layer: AttentionLayer | None = None) -> Budget:
    """The budget of the kind named. Where the support is that of the normalisation, the layer knows it."""
    with told_as("budget"):
        return BUDGETS[values["kind"]](float(values["radius"]), support_from(values.get("support", "auto"), layer))


def support_from(value: float | str, layer: AttentionLayer | None) -> float | TokenRadius | None:
    """`auto` leaves it to the attack: slivers stay within the tokens' own largest norm, nothing else is limited."""
    match value:
        case "auto":
            return None
        case "tokens":
            return TokenRadius()
        case "normalization":
            if layer is None or layer.input_radius is None:
                raise UserError("budget.support=normalization needs a layer with a normalisation in front of it.")
            return layer.input_radius
        case _:
            return float(value)


def certificate_options_from(values: dict[str, Any]) -> CertificateOptions:
    """How certificates are computed in one run: where no seed is given one is drawn, for all of the run."""
    return CertificateOptions(**{name: value for name, value in values.items() if name != "seed" or value is not None})


def attack_from(values: dict[str, Any]) -> Attack:
    """The attack named, with its own settings; an attack of a suite keeps its name as one of them."""
    with told_as("attack"):
        if "suite" in values:
            return ATTACKS[values["suite"]](**values)
        if values["name"] not in ATTACKS:  # that of an installed package
            made: Attack = choices("attack")[values["name"]](**_own(values)).made()
            return made
        return ATTACKS[values["name"]](**_own(values))


def source_from(values: dict[str, Any]) -> Source:
    """The data source named, with its own settings."""
    made: Source = choices("data")[values["name"]](**_own(values)).made()
    return made


def study_from(values: dict[str, Any]) -> Study:
    """The study of a single head named by a task, with its own settings."""
    return STUDIES[values["name"]](**_own(values))


def lipschitz_study_from(values: dict[str, Any]) -> LipschitzStudy:
    """What the lipschitz task measures; `mask: model` leaves every layer its own."""
    mask = None if values["mask"] == "model" else Mask(values["mask"])
    return LipschitzStudy(heads=values["heads"], radii=tuple(values["radii"]), mask=mask)


def _own(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != "name"}

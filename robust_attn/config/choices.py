"""What can be chosen in every group: our own choices, and those of installed packages."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from robust_attn.attacks.settings import ATTACKS
from robust_attn.config.budgets import BUDGETS
from robust_attn.data.settings import SOURCES
from robust_attn.models.catalog import CATALOG, ModelSpec, installed_models
from robust_attn.models.settings import choice_of
from robust_attn.plugins import Plugins, plugins
from robust_attn.runs.tracking.settings import TRACKERS
from robust_attn.settings import Settings, called
from robust_attn.tasks.registry import tasks_by_name
from robust_attn.types import UserError

OURS: Mapping[str, Mapping[str, type[Settings]]] = {
    group: {called(kind): kind for kind in kinds}
    for group, kinds in {
        "task": tasks_by_name().values(),
        "model": [choice_of(spec) for spec in CATALOG.values()],
        "data": SOURCES,
        "attack": ATTACKS.values(),
        "budget": BUDGETS,
        "tracker": TRACKERS,
    }.items()
}
USUAL = {
    "task": "attack",
    "model": "bert",
    "data": "prose",
    "attack": "move",
    "budget": "wasserstein",
    "tracker": "wandb",
}
"""What is taken where nothing is chosen."""
_EXTENDED = ("task", "model", "attack")


@dataclass(frozen=True)
class Unusable(Settings):
    """A choice of an installed package that cannot be made; `trouble` says why."""

    trouble: ClassVar[str]

    def __post_init__(self) -> None:
        raise UserError(self.trouble)


def choices(group: str) -> dict[str, type[Settings]]:
    """Every choice of a group by its name on the command line. One that is broken says so when it is made."""
    ours = dict(OURS[group])
    if group not in _EXTENDED:
        return ours
    foreign = _foreign(group)
    unusable = {
        name: type(name, (Unusable,), {"name": name, "trouble": said, "__doc__": said, "__module__": __name__})
        for name, said in foreign.broken.items()
    }
    found = {name: choice_of(kind) if isinstance(kind, ModelSpec) else kind for name, kind in foreign.found.items()}
    return ours | found | unusable


def warn_of_unusable() -> None:
    """Warn of what is installed but cannot be used."""
    for group in _EXTENDED:
        for trouble in _foreign(group).troubles:
            warnings.warn(trouble, stacklevel=2)


def _foreign(group: str) -> Plugins:
    if group == "model":
        return installed_models()
    return plugins(f"{group}s", _is_choice, "a class derived from Settings with a name", OURS[group])


def _is_choice(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, Settings) and isinstance(getattr(found, "name", None), str)

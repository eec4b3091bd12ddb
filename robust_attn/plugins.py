"""What installed packages add by entry points, in the groups robust_attn.attacks, .bounds, .models and .tasks.

A package that cannot be used is a sentence, never a crash: it is told when its choice is made, and warned of otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from robust_attn.types import UserError


@dataclass(frozen=True)
class Plugins:
    """The usable ones by name, and of the others a sentence each; those in `refused` have a name that is ours."""

    found: Mapping[str, Any]
    broken: Mapping[str, str]
    refused: tuple[str, ...] = ()

    @property
    def troubles(self) -> tuple[str, ...]:
        """Everything that somebody should know."""
        return (*self.broken.values(), *self.refused)


def plugins(group: str, fits: Callable[[Any], bool], expected: str, taken: Collection[str] = ()) -> Plugins:
    """What the entry points of a group lead to, as far as it `fits`; a name that is taken or comes twice is refused."""
    found: dict[str, Any] = {}
    broken: dict[str, str] = {}
    refused = []
    for entry in entries(group):
        if entry.name in (*taken, *found, *broken):
            refused.append(f"{_described(entry)} is not used: the name is taken.")
            continue
        try:
            loaded = _loaded(entry)
        except UserError as trouble:
            broken[entry.name] = str(trouble)
            continue
        if fits(loaded) and getattr(loaded, "name", entry.name) == entry.name:
            found[entry.name] = loaded
        else:
            broken[entry.name] = (
                f"{_described(entry)} cannot be used: expected {expected} of that name, got {loaded!r}."
            )
    return Plugins(found, broken, tuple(refused))


@cache
def entries(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group, in the order of their names."""
    return tuple(sorted(entry_points(group=f"robust_attn.{group}"), key=lambda entry: entry.name))


@cache
def _loaded(entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except Exception as error:
        words = " ".join(str(error).split())
        raise UserError(f"{_described(entry)} cannot be used: {type(error).__name__}: {words}.") from error


def _described(entry: EntryPoint) -> str:
    package = "an unnamed package" if entry.dist is None else f"the package {entry.dist.name}"
    kind = entry.group.removeprefix("robust_attn.").removesuffix("s")
    return f"The {kind} {entry.name!r} of {package}"

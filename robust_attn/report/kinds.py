"""What kind of statement a record makes; a kind that is not known is shown as it is, never judged by the wrong rule."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_CHECKED_FIELDS = ("certified", "observed", "verdict", "bounds")


class Kind(StrEnum):
    """Promises about output changes, searches of a ball, local Lipschitz constants, and everything else."""

    CHECK = "check"
    SEARCH = "search"
    CONSTANT = "constant"
    OTHER = "other"


@dataclass(frozen=True)
class Kinds:
    """The records of a run by their kind, each in order."""

    checks: tuple[dict[str, Any], ...]
    searches: tuple[dict[str, Any], ...]
    constants: tuple[dict[str, Any], ...]
    others: tuple[dict[str, Any], ...]


def kinds_of(records: Iterable[dict[str, Any]]) -> Kinds:
    """Records sorted by kind."""
    groups: dict[Kind, list[dict[str, Any]]] = {kind: [] for kind in Kind}
    for record in records:
        groups[kind_of(record)].append(record)
    return Kinds(*(tuple(groups[kind]) for kind in (Kind.CHECK, Kind.SEARCH, Kind.CONSTANT, Kind.OTHER)))


def kind_of(record: dict[str, Any]) -> Kind:
    """The kind of one record: by its task where it names one, for experiments vary what a promise takes as given."""
    measured = isinstance(record.get("lipschitz"), dict)
    certified = record.get("certified")
    match record.get("task"):
        case "worst_case":
            return Kind.SEARCH if measured and isinstance(certified, dict) else Kind.OTHER
        case "lipschitz":
            return Kind.CONSTANT if measured else Kind.OTHER
        case None | "attack" | "certify":
            if isinstance(certified, dict) and "constant" in certified and measured:
                return Kind.SEARCH
            if any(field in record for field in _CHECKED_FIELDS):
                return Kind.CHECK
            return Kind.CONSTANT if measured else Kind.OTHER
        case _:
            return Kind.OTHER

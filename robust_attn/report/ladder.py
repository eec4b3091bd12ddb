"""The ladder of bounds of one record: from the attack that was seen up to the loosest promise."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from robust_attn.report.numerals import finite, number_at


@dataclass(frozen=True)
class Rung:
    """One bound on the output change; `log10` is the logarithm of that change, None where the bound does not apply."""

    name: str
    side: str
    scope: str
    log10: float | None
    applies: bool
    why_not: str
    certifies: bool


def ladder_of(record: dict[str, Any]) -> tuple[Rung, ...]:
    """Rungs from the smallest to the largest; those that do not apply or are not known come last."""
    offset = _log10_offset(record)
    chosen = _certified_name(record)
    rungs = (_rung(bound, offset, chosen) for bound in bounds_of(record))
    return tuple(sorted(rungs, key=lambda rung: (math.inf if rung.log10 is None else rung.log10, rung.name)))


def bounds_of(record: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """The entries of `bounds` that are objects at all."""
    bounds = record.get("bounds")
    return [bound for bound in bounds if isinstance(bound, dict)] if isinstance(bounds, list) else []


def best_upper(ladder: Sequence[Rung], prefix: str = "") -> Rung | None:
    """The smallest applicable upper bound whose name starts with `prefix`."""
    known = (rung for rung in ladder if rung.side == "upper" and rung.log10 is not None)
    return next((rung for rung in known if rung.name.startswith(prefix)), None)


def _certified_name(record: dict[str, Any]) -> str:
    certified = record.get("certified")
    return str(certified.get("bound") or "") if isinstance(certified, dict) else ""


def _rung(bound: dict[str, Any], offset: float | None, chosen: str) -> Rung:
    name = str(bound.get("name") or "?")
    applies = bound.get("applies") is not False
    log10 = _log10_output(bound, offset) if applies else None
    reason = "" if log10 is not None else str(bound.get("why_not") or "its value is not a finite number")
    return Rung(
        name=name,
        side="lower" if bound.get("side") == "lower" else "upper",
        scope=str(bound.get("scope") or ""),
        log10=log10,
        applies=applies,
        why_not=reason,
        certifies=name == chosen and log10 is not None,
    )


def _log10_output(bound: dict[str, Any], offset: float | None) -> float | None:
    change = finite(bound.get("output_change"))
    if change is not None:
        return math.log10(change) if change > 0 else None if change < 0 else -math.inf
    log10 = finite(bound.get("log10"))
    return log10 + offset if log10 is not None and offset is not None else None


def _log10_offset(record: dict[str, Any]) -> float | None:
    """What turns the `log10` of a bound into the logarithm of an output change.

    A bound such as e^(2a) overflows as an output change and is known by its log10 alone, which is that of a Lipschitz
    constant. The factor between the two is read off the bounds that carry both, else it is the radius of the budget.
    """
    pairs = ((finite(bound.get("output_change")), finite(bound.get("log10"))) for bound in bounds_of(record))
    offsets = [math.log10(change) - log10 for change, log10 in pairs if change and change > 0 and log10 is not None]
    if offsets:
        return median(offsets)
    radius = number_at(record, "budget.radius")
    return math.log10(radius) if radius is not None and radius > 0 else None

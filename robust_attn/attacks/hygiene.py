"""Is an attack to be believed? Checks on records that ask for no attack: pure functions of plain values.

After Carlini et al. 2019 and the flags of AutoAttack: an attack that stays below what its own budget offers says
nothing about the layer. Each check looks at every record of an attack and gives at most one sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

TOLERANCE = 1e-9
STILL_RISING = 0.01
"""Relative gain of the last steps from which on a run is said to have ended too soon."""
LAST = 0.2
"""The part of the steps that counts as the last."""

Record = Mapping[str, Any]
Check = Callable[[Record], bool]


def hygiene_warnings(records: Sequence[Record]) -> list[str]:
    """What a reader should know before trusting the attack, most serious first; empty if nothing is wrong."""
    attacks = [record for record in records if _observed(record) is not None and record.get("attack") != "none"]
    found = [_counted(attacks, check, words) for check, words in CHECKS]
    return [sentence for sentence in (*found, _not_growing(attacks)) if sentence]


def beyond_budget(record: Record) -> bool:
    """The input was moved farther than the budget allows."""
    change = record["observed"].get("input_change")
    return change is not None and change > record["budget"]["radius"] * (1 + TOLERANCE)


def weaker_than_random(record: Record) -> bool:
    """Some random displacements of the same budget change the output more."""
    return record["attack"] != "random" and _exceeded(record, "random")


def weaker_than_half(record: Record) -> bool:
    """Half of the displacement found changes the output more than all of it."""
    return record["attack"] not in ("random", "linear") and _exceeded(record, "half")


def still_rising(record: Record) -> bool:
    """The output change was still growing when the steps were used up."""
    history = [value for value in record.get("convergence") or [] if value is not None]
    if record["attack"] == "random" or len(history) < 5:
        return False
    before = history[-1 - max(1, round(LAST * len(history)))]
    return history[-1] - before > STILL_RISING * history[-1]


CHECKS: tuple[tuple[Check, str], ...] = (
    (beyond_budget, "left their budget: a bug, please report it"),
    (
        weaker_than_random,
        "are weaker than random displacements of the same size: raise attack.steps or attack.restarts",
    ),
    (weaker_than_half, "change the output less than half of the same displacement does: raise attack.restarts"),
    (still_rising, "were still growing at their last step: raise attack.steps"),
)


def _counted(records: Sequence[Record], check: Check, words: str) -> str | None:
    failed = [record for record in records if check(record)]
    if not failed:
        return None
    layers = ", ".join(str(layer) for layer in sorted({record["layer"] for record in failed}))
    return f"{len(failed)} of {len(records)} attacks {words} (layers {layers})."


def _not_growing(records: Sequence[Record]) -> str | None:
    """Where several radii were tried on the same tokens, a larger one must not be weaker."""
    groups: dict[tuple[Any, ...], list[tuple[float, float]]] = {}
    for record in records:
        names = ("model", "weights", "layer", "head", "sample", "tokens", "copies", "attack")
        subject = (*(record.get(name) for name in names), record["budget"]["kind"])
        groups.setdefault(subject, []).append((record["budget"]["radius"], _observed(record) or 0.0))
    fallen = sum(
        any(larger[1] < smaller[1] * (1 - TOLERANCE) for smaller, larger in pairwise(found))
        for found in (sorted(pairs) for pairs in groups.values())
    )
    if not fallen:
        return None
    return (
        f"{fallen} of {len(groups)} attacks are weaker at a larger radius than at a smaller one: raise attack.restarts."
    )


def _observed(record: Record) -> float | None:
    observed = record.get("observed") or {}
    change: float | None = observed.get("output_change")
    return change


def _exceeded(record: Record, name: str) -> bool:
    other = (record.get("hygiene") or {}).get(name)
    return other is not None and other > (_observed(record) or 0.0) * (1 + TOLERANCE)

"""Is an attack to be believed? Checks on records that ask for no attack.

After Carlini et al. 2019 and the flags of AutoAttack: an attack that stays below what its own budget offers says
nothing about the layer. Each check looks at every record of an attack and gives at most one sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from robust_attn.records.kinds import AttackRecord

TOLERANCE = 1e-9
STILL_RISING = 0.01
"""Relative gain of the last steps from which on a run is said to have ended too soon."""
LAST = 0.2
"""The part of the steps that counts as the last."""

Check = Callable[[AttackRecord], bool]


def hygiene_warnings(records: Sequence[AttackRecord]) -> list[str]:
    """What a reader should know before trusting the attack, most serious first; empty if nothing is wrong."""
    attacks = [record for record in records if record.attacked and record.observed.output_change is not None]
    found = [_counted(attacks, check, words) for check, words in CHECKS]
    return [sentence for sentence in (*found, _not_growing(attacks)) if sentence]


def beyond_budget(record: AttackRecord) -> bool:
    """The input was moved farther than the budget allows."""
    change, radius = record.observed.input_change, record.budget.radius
    return change is not None and radius is not None and change > radius * (1 + TOLERANCE)


def weaker_than_random(record: AttackRecord) -> bool:
    """Some random displacements of the same budget change the output more."""
    return record.attack != "random" and _exceeded(record, record.hygiene.random)


def weaker_than_half(record: AttackRecord) -> bool:
    """Half of the displacement found changes the output more than all of it."""
    return record.attack not in ("random", "linear") and _exceeded(record, record.hygiene.half)


def still_rising(record: AttackRecord) -> bool:
    """The output change was still growing when the steps were used up."""
    history = [value for value in record.convergence if value is not None]
    if record.attack == "random" or len(history) < 5:
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


def _counted(records: Sequence[AttackRecord], check: Check, words: str) -> str | None:
    failed = [record for record in records if check(record)]
    if not failed:
        return None
    layers = ", ".join(str(layer) for layer in sorted({record.layer or 0 for record in failed}))
    return f"{len(failed)} of {len(records)} attacks {words} (layers {layers})."


def _not_growing(records: Sequence[AttackRecord]) -> str | None:
    """Where several radii were tried on the same tokens, a larger one must not be weaker."""
    groups: dict[tuple[object, ...], list[tuple[float, float]]] = {}
    for record in records:
        place = (record.model, record.weights, record.layer, record.head, record.sample, record.tokens)
        subject = (*place, record.copies, record.attack, record.budget.kind)
        reached = (record.budget.radius or 0.0, record.observed.output_change or 0.0)
        groups.setdefault(subject, []).append(reached)
    fallen = sum(
        any(larger[1] < smaller[1] * (1 - TOLERANCE) for smaller, larger in pairwise(found))
        for found in (sorted(pairs) for pairs in groups.values())
    )
    said = f"{fallen} of {len(groups)} attacks are weaker at a larger radius than at a smaller one"
    return f"{said}: raise attack.restarts." if fallen else None


def _exceeded(record: AttackRecord, other: float | None) -> bool:
    return other is not None and other > (record.observed.output_change or 0.0) * (1 + TOLERANCE)

"""Conditions on records, such as `certified_radius<0.001` or `verdict=VACUOUS`: their grammar, and when they hold."""

from __future__ import annotations

import math
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from robust_attn.records.kinds import Record
from robust_attn.records.quantities import QUANTITIES
from robust_attn.types import UserError, Verdict

RELATIONS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
}
VERDICTS = (Verdict.VACUOUS, Verdict.UNKNOWN)
"""Verdicts that a condition can name; VIOLATED needs none, it outranks every condition."""
VERDICT = "verdict"
_FORM = re.compile(r"\s*([A-Za-z_]+)(?:\.([A-Za-z_]+))?\s*(<=|>=|<|>|=)\s*([^\s<>=]+)\s*")
_EXPECTED = "expected a quantity, one of < <= > >= = and a number, as in certified_radius<0.001, or verdict=VACUOUS"


@dataclass(frozen=True)
class Finding:
    """What a record has where a condition is judged: a number, perhaps one that is not known, or a verdict."""

    holds: bool
    number: float | None = None
    verdict: Verdict | None = None


@dataclass(frozen=True)
class Condition(ABC):
    """What a person calls a failure: something about `quantity`. Written as text and read again it is the same."""

    quantity: str

    @abstractmethod
    def possible(self, kinds: Iterable[type[Record]]) -> bool:
        """Whether records of one of these kinds can have what it speaks of."""

    @abstractmethod
    def judged(self, record: Record) -> Finding | None:
        """Whether it holds for a record; None where the record has nothing that it speaks of."""


@dataclass(frozen=True)
class NumberCondition(Condition):
    """A quantity, by one of its ways or in general, beside a limit."""

    way: str
    relation: str
    limit: float

    def __str__(self) -> str:
        way, short = f".{self.way}" if self.way else "", f"{self.limit:g}"
        return f"{self.quantity}{way}{self.relation}{short if float(short) == self.limit else repr(self.limit)}"

    def possible(self, kinds: Iterable[type[Record]]) -> bool:
        """Whether the quantity is one of theirs."""
        return QUANTITIES[self.quantity].possible(kinds)

    def judged(self, record: Record) -> Finding | None:
        """A number that is not known is the worst where it had to be proved; elsewhere nothing holds for it."""
        quantity = QUANTITIES[self.quantity]
        numbers = quantity.numbers(record)
        if not numbers or (self.way and self.way not in numbers):
            return None
        number = numbers.get(self.way) if self.way else quantity.usual(numbers)
        counted = quantity.unproved if number is None else number
        holds = counted is not None and RELATIONS[self.relation](counted, self.limit)
        return Finding(holds, number)


@dataclass(frozen=True)
class VerdictCondition(Condition):
    """A verdict that counts as a failure."""

    verdict: Verdict

    def __str__(self) -> str:
        return f"{self.quantity}={self.verdict.value}"

    def possible(self, kinds: Iterable[type[Record]]) -> bool:
        """Whether any of them states verdicts."""
        return any(entry.name == VERDICT for kind in kinds for entry in fields(kind))

    def judged(self, record: Record) -> Finding | None:
        """What is stated counts, whether or not it decides over the run."""
        return None if record.stated is None else Finding(record.stated is self.verdict, verdict=record.stated)


def judgeable(kinds: Sequence[type[Record]]) -> tuple[str, ...]:
    """What conditions can speak of where records are of these kinds."""
    quantities = [quantity.name for quantity in QUANTITIES.values() if quantity.possible(kinds)]
    return (*quantities, *([VERDICT] if VerdictCondition(VERDICT, Verdict.UNKNOWN).possible(kinds) else []))


def condition_from(text: str) -> Condition:
    """The condition that a text writes; a UserError of one sentence where it writes none."""
    form = _FORM.fullmatch(text)
    if form is None:
        several = "; several stand in a list, as in [tightness<0.1,verdict=VACUOUS]" if "," in text else ""
        raise UserError(f"fail_if: {text!r:.60} is no condition: {_EXPECTED}{several}.")
    name, way, relation, limit = form.groups()
    if name == VERDICT:
        return _verdict_condition(text, way, relation, limit)
    if name not in QUANTITIES:
        raise UserError(f"fail_if: there is no quantity {name!r:.60}; there are: {', '.join((*QUANTITIES, VERDICT))}.")
    quantity = QUANTITIES[name]
    if way and way not in quantity.ways:
        known = f"there are: {', '.join(quantity.ways)}" if quantity.ways else "it has none"
        raise UserError(f"fail_if: {name} has no way {way!r:.60}; {known}.")
    return NumberCondition(name, way or "", relation, _limit(text, limit))


def conditions_from(texts: Iterable[str]) -> tuple[Condition, ...]:
    """Each once, in order."""
    return tuple(dict.fromkeys(map(condition_from, texts)))


def _limit(text: str, written: str) -> float:
    try:
        limit = float(written)
    except ValueError:
        limit = math.nan
    if not math.isfinite(limit):
        raise UserError(f"fail_if: {text!r:.60} compares with {written!r:.40}, which is no finite number.")
    return limit


def _verdict_condition(text: str, way: str | None, relation: str, limit: str) -> Condition:
    if way or relation != "=" or limit not in VERDICTS:
        allowed = " or ".join(f"{VERDICT}={verdict.value}" for verdict in VERDICTS)
        raise UserError(f"fail_if: {text!r:.60} is no condition on a verdict: expected {allowed}.")
    return VerdictCondition(VERDICT, Verdict(limit))

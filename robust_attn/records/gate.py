"""Whether a run passes: the conditions of `fail_if`, where they hold, and the exit status that follows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from robust_attn.records.conditions import Condition
from robust_attn.records.entry import Entry, fact
from robust_attn.records.kinds import Record
from robust_attn.records.quantities import place_of
from robust_attn.types import ExitStatus, Outcome, Verdict

NAMED = 8
"""Places that a sentence names; the summary has all of them."""


@dataclass(frozen=True, kw_only=True)
class Held(Entry):
    """A record for which a condition holds."""

    condition: str = fact("the condition")
    place: str = fact("the row or sample, and the layer and head where it has one")
    number: float | None = fact("what was compared; null where nothing is proved, and for a verdict", None)
    verdict: Verdict | None = fact("the verdict, where the condition speaks of verdicts", None)

    @property
    def words(self) -> str:
        """The place with what was found there."""
        found = "unproved" if self.number is None else f"{self.number:.6g}"
        return f"{self.place.replace(', ', ' ')} ({self.verdict.value if self.verdict else found})"


@dataclass(frozen=True, kw_only=True)
class Gate(Entry):
    """The conditions of a run and what became of them."""

    conditions: tuple[str, ...] = fact("what was to count as a failure", ())
    held: tuple[Held, ...] = fact("every record for which one of them holds", ())
    unjudged: tuple[str, ...] = fact("conditions that no record could be judged by", ())

    @property
    def outcome(self) -> Outcome:
        """What could not be judged comes before what holds: nobody may take silence for success."""
        message = "; ".join([*self._failures(), *(f"no record can be judged by {text}" for text in self.unjudged)])
        status = ExitStatus.FAIL_IF if self.held else ExitStatus.OK
        status = ExitStatus.WRONG_CONFIGURATION if self.unjudged else status
        return Outcome(status, f"fail_if: {message}" if message else None)

    def _failures(self) -> Iterable[str]:
        for condition in dict.fromkeys(held.condition for held in self.held):
            places = [held.words for held in self.held if held.condition == condition]
            more = f" and {len(places) - NAMED} more" if len(places) > NAMED else ""
            yield f"{condition} holds at {', '.join(places[:NAMED])}{more}"


def gate_of(conditions: Sequence[Condition], records: Sequence[Record]) -> Gate | None:
    """Every condition judged by every record that has what it speaks of; None where there are no conditions."""
    if not conditions:
        return None
    held: list[Held] = []
    unjudged: list[str] = []
    for condition in conditions:
        findings = [(record, found) for record in records if (found := condition.judged(record)) is not None]
        unjudged += [] if findings else [str(condition)]
        held += [
            Held(condition=str(condition), place=place_of(record), number=found.number, verdict=found.verdict)
            for record, found in findings
            if found.holds
        ]
    return Gate(conditions=tuple(map(str, conditions)), held=tuple(held), unjudged=tuple(unjudged))

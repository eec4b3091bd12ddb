"""Verdicts and their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from robust_attn.records.kinds import Record
from robust_attn.types import ExitStatus, Outcome, Verdict

FROM_BAD_TO_GOOD = (Verdict.VIOLATED, Verdict.UNKNOWN, Verdict.VACUOUS, Verdict.HOLDS)


def worst_verdict(verdicts: Iterable[Verdict | None]) -> Verdict | None:
    """The verdict that decides over a whole; None where there is none at all."""
    found = set(verdicts)
    return next((verdict for verdict in FROM_BAD_TO_GOOD if verdict in found), None)


def judged(records: Sequence[Record]) -> Outcome:
    """The outcome of a run that came to its end: a violation is worst, and what is not known is no success."""
    match worst_verdict(record.judged for record in records):
        case Verdict.VIOLATED:
            return Outcome(ExitStatus.VIOLATED, "an observed output change exceeds its certificate")
        case Verdict.UNKNOWN:
            return Outcome(ExitStatus.FAILED, "a value was not finite, or lost in rounding: nothing is known")
        case _ if any(record.unknown_constant for record in records):
            return Outcome(ExitStatus.FAILED, "a constant was not finite, so nothing can be said about it")
        case _:
            return Outcome(ExitStatus.OK)


def badness(verdict: Verdict) -> int:
    """How bad a verdict is: the worst has the largest number."""
    return len(FROM_BAD_TO_GOOD) - FROM_BAD_TO_GOOD.index(verdict)


def verdict_counts(verdicts: Iterable[Verdict | None]) -> dict[Verdict, int]:
    """How often each verdict was given, every verdict present."""
    counts = Counter(verdicts)
    return {verdict: counts[verdict] for verdict in Verdict}

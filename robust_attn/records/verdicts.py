"""Verdicts and their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from robust_attn.types import Verdict

FROM_BAD_TO_GOOD = (Verdict.VIOLATED, Verdict.UNKNOWN, Verdict.VACUOUS, Verdict.HOLDS)


def worst_verdict(verdicts: Iterable[Verdict | None]) -> Verdict | None:
    """The verdict that decides over a whole; None where there is none at all."""
    found = set(verdicts)
    return next((verdict for verdict in FROM_BAD_TO_GOOD if verdict in found), None)


def badness(verdict: Verdict) -> int:
    """How bad a verdict is: the worst has the largest number."""
    return len(FROM_BAD_TO_GOOD) - FROM_BAD_TO_GOOD.index(verdict)


def verdict_counts(verdicts: Iterable[Verdict | None]) -> dict[Verdict, int]:
    """How often each verdict was given, every verdict present."""
    counts = Counter(verdicts)
    return {verdict: counts[verdict] for verdict in Verdict}

"""What one inequality gets of a failure probability, and what a plan gets that fresh samples did not confirm."""

from __future__ import annotations

from robust_attn.predictions.plan import Slack
from robust_attn.predictions.tape import Tape

NORMS = 100
"""More norms than one operation asks for in one walk."""


def share_of_one(tape: Tape, probability: float, *, walks: int) -> float:
    """Of the failure probability, where so many walks along the tape look at samples.

    Inequalities of a walk: ranges and rows of up to seven streams at both ends of every curved operation, norms being
    fewer than a hundred per operation, and what is looked at of the last node.
    """
    curved = sum(node.is_curved for node in tape.nodes)
    per_walk = 7 * tape.functionals + NORMS * curved + 10 * tape.logits.numel()
    return probability / (per_walk * walks)


def range_and_norm(tape: Tape, probability: float, *, attempts: int) -> tuple[float, float]:
    """Of the failure probability, what one range or row gets and what one norm gets: half of it for all of either.

    Ranges and rows are those of four orders in the first sketch and of three streams in every attempt, at both ends of
    every curved operation and at the margins; norms are asked for in attempts only, and are far fewer.
    """
    curved = max(1, sum(node.is_curved for node in tape.nodes))
    ranges = (4 + 3 * attempts) * (tape.functionals + tape.logits.numel())
    return probability / 2 / ranges, probability / 2 / (NORMS * curved * attempts)


def raised(slack: Slack, ratios: Slack, reserve: float) -> Slack:
    """More for the kinds that failed, or nearly: by what they failed by and a reserve."""
    return {kind: each * min(max(reserve * ratios[kind], 1.0), 2.5) for kind, each in slack.items()}

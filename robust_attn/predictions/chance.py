"""What one inequality gets of a failure probability, and what a plan gets that fresh samples did not confirm."""

from __future__ import annotations

from robust_attn.predictions.plan import Slack
from robust_attn.predictions.tape import Tape

NORMS = 100
"""More inequalities between norms, one for every order and stream, than one operation needs in one walk."""


def range_and_norm(tape: Tape, probability: float, *, attempts: int) -> tuple[float, float]:
    """Of the failure probability, what one range or row gets and what one norm gets: half of it for all of either.

    Ranges and rows are those of four orders in the first sketch and of three streams in every attempt, at both ends of
    every curved operation and at the margins. Norms, far fewer, are asked for in attempts only, at every curved
    operation and at the end.
    """
    curved = sum(node.is_curved for node in tape.nodes)
    ranges = (4 + 3 * attempts) * (tape.functionals + tape.logits.numel())
    return probability / 2 / ranges, probability / 2 / (NORMS * (curved + 1) * attempts)


def raised(slack: Slack, ratios: Slack, reserve: float) -> Slack:
    """More for the kinds that failed, or nearly: by what they failed by and a reserve."""
    return {kind: each * min(max(reserve * ratios[kind], 1.0), 2.5) for kind, each in slack.items()}

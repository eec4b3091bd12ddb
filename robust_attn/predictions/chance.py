"""What one inequality gets of a failure probability, and what a plan gets that fresh samples did not confirm."""

from __future__ import annotations

from robust_attn.predictions.plan import Slack
from robust_attn.predictions.tape import Tape


def share_of_one(tape: Tape, probability: float, *, walks: int) -> float:
    """Of the failure probability, where so many walks along the tape look at samples.

    Inequalities of a walk: ranges and rows of up to seven streams at both ends of every curved operation, norms being
    fewer than a hundred per operation, and what is looked at of the last node.
    """
    curved = sum(node.is_curved for node in tape.nodes)
    per_walk = 7 * tape.functionals + 100 * curved + 10 * tape.logits.numel()
    return probability / (per_walk * walks)


def raised(slack: Slack, ratios: Slack, reserve: float) -> Slack:
    """More for the kinds that failed, or nearly: by what they failed by and a reserve."""
    return {kind: each * min(max(reserve * ratios[kind], 1.0), 2.5) for kind, each in slack.items()}

"""From a seed to its case: the usual one first, then, now and then, what certificates were once wrong about."""

from __future__ import annotations

import random

from robust_attn.soundness.calls import called, widened
from robust_attn.soundness.case import Case
from robust_attn.soundness.twists import TWISTS
from robust_attn.soundness.usual import usual


def drawn(seed: int) -> Case:
    """The case of a seed."""
    case = usual(seed)
    draw = random.Random(f"{seed} beyond the usual")
    share = draw.random()
    for part, twist in TWISTS:
        if share < part:
            return twist(draw, case)
        share -= part
    return called(draw, widened(draw, case))

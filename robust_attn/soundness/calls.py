"""What of a case is asked: any sign of the scale, any support, and a function whose promise is attacked."""

from __future__ import annotations

import random
from dataclasses import replace

from robust_attn.soundness.case import RADII, Case

MOVING = ("move", "move", "linear", "random", "PGDL2")
"""Attacks that leave every token whole."""
CONSTANTS = ("local_lipschitz", "split_lipschitz", "head_lipschitz", "largest_singular_value", "head_norms")


def widened(draw: random.Random, case: Case) -> Case:
    """Any sign of the scale, sparse weights, and supports of every size up to a hundred times the largest token."""
    case = replace(case, scale=_scale(draw))
    if case.weights == "normal" and draw.random() < 0.1:
        case = replace(case, weights="sparse")
    if case.tolerance is None and draw.random() < 0.35:
        case = replace(case, support="number", support_times=10 ** draw.uniform(0, 2))
    return case


def called(draw: random.Random, case: Case) -> Case:
    """Half of the cases as a run does it, half through a function of the library, which gets layers as stored."""
    if case.tolerance is not None:
        function = draw.choice((RADII, "certified_radius"))
        return replace(case, function=function, deterministic=draw.random() < 0.25, attack=draw.choice(MOVING))
    share = draw.random()
    if share < 0.5:
        return case
    if share < 0.63 or case.budget != "wasserstein":
        return certified(draw, case)
    if share < 0.85:
        return any_measure(draw, case)
    return replace(case, function=draw.choice(CONSTANTS), samples=(0, 1))


def certified(draw: random.Random, case: Case) -> Case:
    """`certify`; where weights are not in float64 tokens stay whole, so that tokens and masses have their precision."""
    attack = case.attack if case.stored == "float64" and case.attack != "duplicate" else draw.choice(MOVING)
    return replace(case, function="certify", attack=attack, deterministic=draw.random() < 0.25, samples=(0, 1))


def any_measure(draw: random.Random, case: Case) -> Case:
    """`certify_measures`, which without a support has to refuse."""
    attacks = ["sliver"] * 4 + ["mass_split", "some_tokens", "move"]
    if case.mask == "none" and not case.rotary:
        attacks.append("duplicate")
    return replace(case, function="certify_measures", attack=draw.choice(attacks), samples=(0, 1))


def _scale(draw: random.Random) -> str:
    return draw.choices(("usual", "negative", "zero"), (0.8, 0.14, 0.06))[0]

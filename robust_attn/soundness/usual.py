"""The usual case of a seed: any shape, attack and budget, ordinary sizes mostly."""

from __future__ import annotations

import random
from typing import Any

from robust_attn.soundness.case import HEAD_WIDTH, HEADS, OUT, TOKENS, WIDTH, Case

SAMPLES = 4


def usual(seed: int) -> Case:
    """Ordinary sizes mostly, and now and then ones that are huge or tiny in one respect."""
    draw = random.Random(seed)
    token_size = _size(draw, -1.0, 0.7)
    case = {
        "seed": seed,
        "budget": draw.choice(("wasserstein", "wasserstein", "frobenius", "per_token")),
        "radius": 0.0 if draw.random() < 0.01 else token_size * 10 ** draw.uniform(-7, 1),
        "support": draw.choice(("none", "none", "tokens")),
        "tokens": draw.randint(1, TOKENS),
        "width": draw.randint(1, WIDTH),
        "groups": draw.randint(1, HEADS // 2),
        "sharing": draw.randint(1, 2),
        "head_width": 2 * draw.randint(1, HEAD_WIDTH // 2),
        "out": draw.randint(1, OUT),
        "mask": draw.choice(("none", "causal")),
        "rotary": draw.random() < 0.3,
        "weights": draw.choice(("normal",) * 5 + ("alike", "one_row", "zero")),
        "logit_size": _size(draw, -1.5, 1.0),
        "value_size": _size(draw, -0.5, 0.5),
        "bias_size": draw.choice((0.0, _size(draw, -1.0, 1.0))),
        "points": draw.choice(("normal", "normal", "constant", "repeated", "adversarial", "one_far")),
        "token_size": token_size,
        "masses": draw.choice(("uniform", "uniform", "unequal", "extreme", "padded")),
        "stored": draw.choice(("float64", "float64", "float32", "bfloat16")),
    }
    return _attacked(draw, case)


def _attacked(draw: random.Random, values: dict[str, Any]) -> Case:
    """An attack that the layer and the budget allow; one case in twelve asks for a certified radius instead."""
    attacks = ["move"] * 3 + ["mass_split"] * 2 + ["linear", "random", "PGDL2"]
    if values["budget"] == "wasserstein":
        attacks += ["some_tokens", "sliver", "sliver"]
        if values["mask"] == "none" and not values["rotary"]:
            attacks += ["duplicate"] * 3
    if draw.random() < 1 / 12:
        tolerance = values["value_size"] * values["token_size"] * 10 ** draw.uniform(-6, 1)
        return Case(**values | {"tolerance": tolerance, "support": "none", "samples": (0,)})
    return Case(**values, attack=draw.choice(attacks), samples=tuple(range(SAMPLES)))


def _size(draw: random.Random, low: float, high: float) -> float:
    """Ten to a power between the two; in one of twelve cases large, in one tiny, now and then beyond all measure."""
    kind = draw.random()
    if kind < 1 / 12:
        return float(10 ** draw.uniform(high, 5))
    if kind < 2 / 12:
        return float(10 ** draw.uniform(-9, low))
    if kind < 2 / 12 + 0.01:
        return float(10 ** draw.uniform(-160, 160))
    return float(10 ** draw.uniform(low, high))

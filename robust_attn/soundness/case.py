"""A case: everything that a trial of the certificates needs, as plain values that fit in a line of JSON.

A case is drawn from its seed; its numbers (weights, tokens, masses) are drawn from the seed and the name of what they
are, in the largest shape there is, and cut to the case's own. So a case with fewer tokens or heads is the same one with
those left out, which is what makes it possible to shrink it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from robust_attn.types import UserError

SAMPLES = 4
TOKENS, WIDTH, HEADS, HEAD_WIDTH, OUT = 12, 6, 6, 4, 5
"""The largest shapes."""
EXTREME = 1e8
"""Sizes beyond this, or below one over it, may overflow on the way to a bound: UNKNOWN is a right answer there."""


@dataclass(frozen=True)
class Case:
    """One layer, `samples` measures (by number), an attack and a budget; with a `tolerance` the certified radius.

    `weights`: normal, alike (all heads), one_row (of rank one), zero. `points`: normal, constant, repeated, adversarial
    (the paper's, for the first head), one_far. `masses`: uniform, unequal, extreme, padded. Sizes multiply normal
    numbers: `logit_size` queries and keys, `value_size` values, `bias_size` biases, `token_size` tokens.
    """

    seed: int
    attack: str = "move"
    budget: str = "wasserstein"
    radius: float = 1.0
    support: str = "none"
    tolerance: float | None = None
    samples: tuple[int, ...] = (0,)
    tokens: int = 1
    width: int = 1
    groups: int = 1
    sharing: int = 1
    head_width: int = 2
    out: int = 1
    mask: str = "none"
    rotary: bool = False
    weights: str = "normal"
    logit_size: float = 1.0
    value_size: float = 1.0
    bias_size: float = 0.0
    points: str = "normal"
    token_size: float = 1.0
    masses: str = "uniform"
    stored: str = "float64"

    @property
    def heads(self) -> int:
        """Query heads."""
        return self.groups * self.sharing

    @property
    def extreme(self) -> bool:
        """Whether sizes are such that UNKNOWN is a right answer."""
        sizes = (self.logit_size, self.value_size, self.bias_size or 1.0, self.token_size, self.tolerance or 1.0)
        return not all(1 / EXTREME <= size <= EXTREME for size in sizes)

    def plain(self) -> dict[str, Any]:
        """The case as JSON holds it."""
        return asdict(self) | {"samples": list(self.samples)}


def case_from(values: Mapping[str, Any]) -> Case:
    """A case from what `plain` gave."""
    known = {field.name for field in fields(Case)}
    if "seed" not in values or not set(values) <= known:
        raise UserError(f"a case of the soundness campaign has the fields {', '.join(sorted(known))}.")
    return Case(**{**values, "samples": tuple(values.get("samples", (0,)))})


def drawn(seed: int) -> Case:
    """The case of a seed: ordinary sizes mostly, and now and then ones that are huge or tiny in one respect."""
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

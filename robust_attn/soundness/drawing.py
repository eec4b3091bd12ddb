"""From a seed to its case: the usual one first, then, now and then, what certificates were once wrong about."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from robust_attn.soundness.case import (
    AGAINST_START,
    CANCELLING,
    EXACT,
    HEAD_WIDTH,
    HEADS,
    OUT,
    RADII,
    RECORDS,
    TOKENS,
    WIDTH,
    Case,
)

SAMPLES = 4
MOVING = ("move", "move", "linear", "random", "PGDL2")
"""Attacks that leave every token whole."""
CONSTANTS = ("local_lipschitz", "split_lipschitz", "head_lipschitz", "largest_singular_value", "head_norms")
ADDED = ("table", "sinks", "shifted_sinks", "both")
POSITIONED = ("table", "both")
"""Layers that tell positions apart by what is added: a token cannot be inserted there."""
START_WIDTH = 144
"""Far above the number of Lanczos steps: a map of fewer dimensions is decomposed, and nothing depends on a start."""
Twist = Callable[[random.Random, Case], Case]


def drawn(seed: int) -> Case:
    """The case of a seed."""
    case = usual(seed)
    draw = random.Random(f"{seed} beyond the usual")
    share = draw.random()
    for part, twist in TWISTS:
        if share < part:
            return twist(draw, case)
        share -= part
    return _called(draw, _widened(draw, case))


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


def _widened(draw: random.Random, case: Case) -> Case:
    """Any sign of the scale, biases and sinks, sparse weights, supports up to a hundred times the largest token."""
    case = replace(case, scale=draw.choices(("usual", "negative", "zero"), (0.8, 0.14, 0.06))[0])
    case = _with_added(case)
    if case.weights == "normal" and draw.random() < 0.1:
        case = replace(case, weights="sparse")
    if case.tolerance is None and draw.random() < 0.35:
        case = replace(case, support="number", support_times=10 ** draw.uniform(0, 2))
    return case


def _with_added(case: Case) -> Case:
    """Now and then something is added to the logits; drawn apart, so that the rest of a case is what it was before."""
    draw = random.Random(f"{case.seed} added to logits")
    added = draw.choices(("nothing", *ADDED), (0.7, 0.09, 0.07, 0.07, 0.07))[0]
    norm = draw.choices(("none", "head", "late", "across", "query"), (0.8, 0.08, 0.04, 0.04, 0.04))[0]
    return replace(case, added="sinks" if added in POSITIONED and case.attack == "duplicate" else added, norm=norm)


def _called(draw: random.Random, case: Case) -> Case:
    """Half of the cases as a run does it, half through a function of the library, which gets layers as stored."""
    if case.tolerance is not None:
        function = draw.choice((RADII, "certified_radius"))
        return replace(case, function=function, deterministic=draw.random() < 0.25, attack=draw.choice(MOVING))
    share = draw.random()
    if share < 0.5:
        return case
    if share < 0.63 or case.budget != "wasserstein":
        return _certified(draw, case)
    if share < 0.85:
        return _any_measure(draw, case)
    return replace(case, function=draw.choice(CONSTANTS), samples=(0, 1))


def _certified(draw: random.Random, case: Case) -> Case:
    """`certify`; where weights are not in float64 tokens stay whole, so that tokens and masses have their precision."""
    attack = case.attack if case.stored == "float64" and case.attack != "duplicate" else draw.choice(MOVING)
    return replace(case, function="certify", attack=attack, deterministic=draw.random() < 0.25, samples=(0, 1))


def _any_measure(draw: random.Random, case: Case) -> Case:
    """`certify_measures`, which without a support has to refuse."""
    attacks = ["sliver"] * 3 + ["best_split", "mass_split", "some_tokens", "move"]
    if case.mask == "none" and not case.rotary and case.added not in POSITIONED:
        attacks.append("duplicate")
    return replace(case, function="certify_measures", attack=draw.choice(attacks), samples=(0, 1))


def _small(draw: random.Random, case: Case) -> Case:
    """Shapes and sizes for exact arithmetic: few numbers, none of them extreme, one sample."""
    return replace(
        _widened(draw, case),
        judged=EXACT,
        samples=(0,),
        tokens=min(case.tokens, draw.randint(1, 4)),
        width=min(case.width, 3),
        groups=min(case.groups, 2),
        sharing=1,
        head_width=2,
        out=min(case.out, 3),
        logit_size=10 ** draw.uniform(-1.5, 1.0),
        value_size=10 ** draw.uniform(-0.5, 0.5),
        bias_size=draw.choice((0.0, 10 ** draw.uniform(-1, 1))),
        token_size=10 ** draw.uniform(-1, 0.7),
        radius=10 ** draw.uniform(-7, 1),
        tolerance=None,
    )


def _judged(draw: random.Random, case: Case) -> Case:
    """A small case with a function whose promise exact arithmetic can judge."""
    share = draw.random()
    if share < 0.15:
        tolerance = case.value_size * (case.token_size or case.radius) * 10 ** draw.uniform(-6, 1)
        return replace(case, function="certified_radius", tolerance=tolerance, support="none", attack="move")
    if share < 0.4:
        return replace(case, function=draw.choice((*CONSTANTS[:2], "head_norms", "observe")), attack="move")
    if share < 0.55 and case.budget == "wasserstein":
        return replace(_any_measure(draw, case), samples=(0,))
    return replace(_certified(draw, case), samples=(0,))


def _exact(draw: random.Random, case: Case) -> Case:
    """In one of five cases one size is far from ordinary, or tokens are all zero: squares may vanish or overflow."""
    small = _small(draw, case)
    if draw.random() < 0.2:
        name = draw.choice(("logit_size", "value_size", "token_size", "bias_size", "radius"))
        beyond = draw.uniform(-300 if name == "radius" else -170, 150)
        far: dict[str, Any] = {name: 10 ** draw.choice((beyond, draw.uniform(-12, 12)))}
        if name == "token_size":
            far["radius"] = far[name] * 10 ** draw.uniform(-7, 1)
        elif draw.random() < 0.3:
            far["token_size"] = 0.0
        small = replace(small, **far)
    return _judged(draw, small)


def _cancelling(draw: random.Random, case: Case) -> Case:
    """Weights of up to 1e9 that are orthogonal up to rounding. Logits are the larger the farther tokens are allowed."""
    weights = draw.choice(CANCELLING)
    logits = weights != CANCELLING[0]
    token_size = 10 ** (draw.uniform(-8, -3) if logits else draw.uniform(-2, 0.5))
    case = replace(
        _small(draw, case),
        weights=weights,
        cancelling_size=10 ** draw.uniform(7 if logits else 5, 9),
        stored=draw.choice(("float64", "float64", "float64", "float32", "bfloat16")),
        rotary=False,
        token_size=token_size,
        logit_size=10 ** draw.uniform(-3, 0.5),
        radius=10 ** draw.uniform(-2, 1) if logits else token_size * 10 ** draw.uniform(-4, 0.5),
        bias_size=draw.choice((0.0, 0.0, 1.0)),
    )
    return _judged(draw, case)


def _shifted(draw: random.Random, case: Case) -> Case:
    """Tokens far from the origin with small differences, at logits that tell them apart or far more than that."""
    stored = draw.choice(("float64", "float32", "float32"))
    token_size = 10 ** draw.uniform(-9, 0)
    distance = token_size * 10 ** (draw.uniform(2, 17) if stored == "float64" else draw.uniform(4, 7))
    contrast = 10 ** draw.uniform(-1, 1.5) * (10 ** draw.uniform(0, 10) if draw.random() < 0.3 else 1.0)
    return _far(
        draw,
        replace(
            case,
            points="shifted",
            stored=stored,
            weights=draw.choice(("normal", "sparse")),
            token_size=token_size,
            distance=distance,
            logit_size=(contrast / (distance * token_size)) ** 0.5,
            radius=token_size * 10 ** draw.uniform(-5, 0.5),
        ),
    )


def _shifted_line(draw: random.Random, case: Case) -> Case:
    """Far tokens whose differences keys do not see and values lose to rounding; a small move decides attention."""
    token_size = 10 ** draw.uniform(-9, 0)
    distance, radius = token_size * 10 ** draw.uniform(14, 17.5), token_size * 10 ** draw.uniform(-4, -0.5)
    return _far(
        draw,
        replace(
            case,
            points="shifted_line",
            stored="float64",
            weights="blind",
            token_size=token_size,
            distance=distance,
            logit_size=(10 ** draw.uniform(0.5, 8) / (distance * radius)) ** 0.5,
            radius=radius,
        ),
    )


def _far(draw: random.Random, case: Case) -> Case:
    """A small case at these tokens, with a few that have mass, and no support but where one is needed."""
    kept: dict[str, Any] = {name: getattr(case, name) for name in ("token_size", "logit_size", "radius", "weights")}
    small = replace(
        _small(draw, case),
        **kept,
        tokens=draw.randint(2, 4),
        width=max(2, min(case.width, 3)),
        rotary=False,
        bias_size=0.0,
        masses=draw.choice(("uniform", "unequal")),
    )
    judged = _judged(draw, small)
    supported = judged.function == "certify_measures"
    return replace(judged, attack="move", support=judged.support if supported else "none")


def _against_start(draw: random.Random, case: Case) -> Case:
    """A linear layer whose top direction is orthogonal to a start that used to be public."""
    library = draw.random() < 2 / 3
    functions = ("certify", "certify", "certified_radius", "local_lipschitz", "split_lipschitz")
    function = draw.choice(functions) if library else RECORDS
    return Case(
        case.seed,
        attack=draw.choice(("linear", "move")),
        budget=draw.choice(("wasserstein", "frobenius")),
        radius=10 ** draw.uniform(-3, 0),
        tolerance=0.1 if function == "certified_radius" else None,
        tokens=draw.randint(1, 2),
        width=START_WIDTH,
        out=START_WIDTH,
        weights=AGAINST_START[0 if library else 1],
        function=function,
    )


def _whole_model(draw: random.Random, case: Case) -> Case:
    """A small BERT with a head: what its layers do to an input attacked as a whole, and to a text with repetitions."""
    return replace(
        case,
        function=draw.choice(("through_model", "repeat_tokens")),
        attack=draw.choice(("move", "mass_split", "sliver")),
        budget="wasserstein",
        radius=10 ** draw.uniform(-4, 0.5),
        support=draw.choice(("none", "tokens")),
        tolerance=None,
        samples=(0,),
        tokens=draw.randint(2, 5),
        logit_size=10 ** draw.uniform(-1, 1.5),
        value_size=10 ** draw.uniform(-1, 1.5),
        token_size=10 ** draw.uniform(-1, 1.5),
        bias_size=0.0,
        mask="none",
        rotary=False,
        added="nothing",
        norm="none",
        weights="normal",
        points="normal",
        masses="uniform",
        stored="float64",
    )


TWISTS: tuple[tuple[float, Twist], ...] = (
    (0.02, _whole_model),
    (0.03, _against_start),
    (0.1, _cancelling),
    (0.07, _shifted),
    (0.04, _shifted_line),
    (0.14, _exact),
)
"""How often a case is not of the usual kind."""

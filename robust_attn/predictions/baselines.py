"""What simpler proofs say of the same prediction: intervals, and balls pushed through constants step by step."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.predictions.constants import Reach, reach_of
from robust_attn.predictions.tape import Tape

ROUNDING = 1e-9
"""Taken off every margin, relative to the largest logit: far above what float64 does to these few sums."""
SMALLEST, LARGEST = 1e-15, 1e3


def interval_radius(tape: Tape, free: Tensor, *, accuracy: float = 0.05) -> float:
    """The largest radius, to that accuracy, at which interval arithmetic keeps the prediction; 0 below 1e-15.

    The box |delta_a| <= radius of the free entries contains the ball of that radius.
    """
    return _largest(lambda radius: interval_margin(tape, radius, free), tape.logits, accuracy)


def interval_margin(tape: Tape, radius: float, free: Tensor) -> float:
    """A lower value of the margin on the box around the input; not-a-number where an interval leaves a domain."""
    boxes: list[tuple[Tensor, Tensor]] = []
    for node in tape.nodes:
        if node.operation is None:
            boxes.append((node.value - radius * free, node.value + radius * free))
        else:
            lows, highs = zip(*(boxes[parent] for parent in node.parents), strict=True)
            boxes.append(node.operation.interval(lows, highs))
    low, high = boxes[-1]
    label = int(tape.logits.argmax())
    return float(low[label] - _others(high, label).max())


def product_radius(tape: Tape, *, accuracy: float = 0.05) -> float:
    """The largest radius at which balls, pushed through the Lipschitz constants of all operations, keep it."""
    reaches = [None if node.operation is None else reach_of(node.operation, tape.at(node)) for node in tape.nodes]
    return _largest(lambda radius: _product_margin(tape, reaches, radius), tape.logits, accuracy)


def product_margin(tape: Tape, radius: float) -> float:
    """A lower value of the margin: the logits move by at most what the constants make of the radius, in l2."""
    reaches = [None if node.operation is None else reach_of(node.operation, tape.at(node)) for node in tape.nodes]
    return _product_margin(tape, reaches, radius)


def _product_margin(tape: Tape, reaches: list[Reach | None], radius: float) -> float:
    radii: list[float] = []
    for node, reach in zip(tape.nodes, reaches, strict=True):
        radii.append(radius if reach is None else reach([radii[parent] for parent in node.parents]))
    label = int(tape.logits.argmax())
    # Two logits whose changes have norm at most R together come nearer by at most sqrt(2) R.
    return float(tape.logits[label] - _others(tape.logits, label).max()) - math.sqrt(2) * radii[-1]


def _others(logits: Float[Tensor, " classes"], label: int) -> Float[Tensor, " others"]:
    return torch.cat([logits[:label], logits[label + 1 :]])


def _largest(margin: Callable[[float], float], logits: Tensor, accuracy: float) -> float:
    """Leaps and bisection of the logarithm; what is not a number is no margin."""
    rounding = ROUNDING * (1 + float(logits.abs().max()))
    good, bad, radius = 0.0, math.inf, 1e-6
    while bad > good * (1 + accuracy) and SMALLEST < radius < LARGEST:
        if margin(radius) > rounding:
            good = radius
        else:
            bad = radius
        radius = 10 * good if bad == math.inf else bad / 10 if good == 0 else math.sqrt(good * bad)
    return good

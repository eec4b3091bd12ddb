"""What other ways say of the same prediction: a product of constants, intervals, randomised smoothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from scipy import stats
from torch import Tensor

from robust_attn.predictions.sketch import unit_vectors
from robust_attn.predictions.tape import Tape
from robust_attn.predictions.walks import there


@dataclass(frozen=True)
class Smoothed:
    """Cohen, Rosenfeld, Kolter 2019: the class of the *smoothed* classifier and its radius; abstains with label None.

    A statement about argmax_c P(f(x + sigma noise) = c), not about the classifier itself.
    """

    label: int | None
    radius: float
    sigma: float
    samples: int
    failure_probability: float


def randomised_smoothing(
    logits: Callable[[Tensor], Tensor],
    points: Tensor,
    *,
    sigma: float,
    samples: int,
    generator: torch.Generator,
    failure_probability: float = 1e-3,
    free: Tensor | None = None,
    batch: int = 64,
) -> Smoothed:
    """CERTIFY of that paper: a class is guessed from a tenth of the samples, then its share has a lower value.

    `logits` maps [batch, n, d] to [batch, classes]. The lower value is that of Clopper and Pearson; the radius is sigma
    times the normal quantile of it, if it is above one half.
    """
    mask = torch.ones_like(points) if free is None else free

    def votes(count: int) -> Tensor:
        counts = torch.zeros(0, dtype=torch.int64)
        for start in range(0, count, batch):
            size = min(batch, count - start)
            noise = torch.randn((size, *points.shape), generator=generator, dtype=points.dtype) * mask
            with torch.no_grad():
                found = logits(points + sigma * noise)
            here = torch.bincount(found.argmax(-1), minlength=found.shape[-1])
            counts = here if len(counts) == 0 else counts + here
        return counts

    label = int(votes(max(samples // 10, 1)).argmax())
    lower = clopper_pearson_lower(int(votes(samples)[label]), samples, failure_probability)
    if lower <= 0.5:
        return Smoothed(None, 0.0, sigma, samples, failure_probability)
    return Smoothed(label, sigma * float(stats.norm.ppf(lower)), sigma, samples, failure_probability)


def clopper_pearson_lower(hits: int, samples: int, probability: float) -> float:
    """A share below which `samples` draws have at least `hits` hits with at most that probability."""
    return 0.0 if hits == 0 else float(stats.beta.ppf(probability, hits, samples - hits + 1))


def constant_product(tape: Tape) -> float:
    """The product over steps of the norms of their derivatives at the clean input, as a log10: what |J| is held by.

    Every step is a consecutive run of nodes with one node at its end that everything later reads. For small tapes: the
    derivative of a step is taken whole.
    """
    total, start = 0.0, 0
    for end in _ends(tape):
        size = tape.value(start).numel()
        if size * tape.value(end).numel() > 50_000_000:
            return math.nan
        total += math.log10(max(float(torch.linalg.matrix_norm(_jacobian(tape, start, end), 2)), 1e-300))
        start = end
    return total


def _ends(tape: Tape) -> list[int]:
    """Nodes after which nothing before them is read."""
    last = tape.last_use
    ends = [index for index in range(1, len(tape.nodes) - 1) if max(last[:index]) <= index]
    return [*ends, len(tape.nodes) - 1]


def _jacobian(tape: Tape, start: int, end: int) -> Tensor:
    """[output, input] between two nodes, by all unit vectors at the first."""
    live = {start: unit_vectors(torch.ones_like(tape.value(start)))}
    for index in range(start + 1, end + 1):
        node = tape.nodes[index]
        live[index] = there(node.operation).first(tape.at(node), [live[parent] for parent in node.parents])
    return live[end].flatten(1).T


def interval_margin(tape: Tape, radius: float, free: Tensor, rivals: Tensor) -> float:
    """A lower value of the smallest margin on the box |delta_a| <= radius around the input, which contains the ball.

    Interval arithmetic, operation by operation; not-a-number where an interval leaves a domain.
    """
    boxes: list[tuple[Tensor, Tensor]] = []
    for node in tape.nodes:
        if node.operation is None:
            boxes.append((node.value - radius * free, node.value + radius * free))
        else:
            lows, highs = zip(*(boxes[parent] for parent in node.parents), strict=True)
            boxes.append(node.operation.interval(lows, highs))
    low, high = boxes[-1]
    return float((rivals @ ((low + high) / 2) - rivals.abs() @ ((high - low) / 2)).min())


def interval_radius(tape: Tape, free: Tensor, rivals: Tensor, *, accuracy: float = 0.05) -> float:
    """The largest radius, to that accuracy, at which intervals keep every margin above zero; 0 below 1e-15."""
    good, bad, radius = 0.0, math.inf, 1e-6
    while bad > good * (1 + accuracy) and 1e-15 < radius < 1e3:
        if interval_margin(tape, radius, free, rivals) > 0:
            good = radius
        else:
            bad = radius
        radius = 10 * good if bad == math.inf else bad / 10 if good == 0 else math.sqrt(good * bad)
    return good

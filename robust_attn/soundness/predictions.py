"""Certificates of whole predictions against attacks: every promise about one drawn model, all attacked at once.

Seeds of whole models are a stream of their own, so that they shift none of the layers'. The observed number of a
comparison is the certified radius, the allowed one the norm of the nearest flip that was found.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from robust_attn.predictions.baselines import interval_radius, product_radius
from robust_attn.predictions.certificate import Effort, PredictionCertificate, certified_prediction
from robust_attn.predictions.steps import Network
from robust_attn.predictions.tape import Tape
from robust_attn.predictions.words import certified_word, worst_direction
from robust_attn.soundness.comparison import Checked, Comparison
from robust_attn.soundness.whole_models import drawn_model, words_of
from robust_attn.types import Verdict

STEPS, RUNGS, RUNG = 14, 14, 1.35
"""Gradients of a descent; how many larger radii are tried, each that many times the one before."""
SAMPLES, ACCURACY = 64, 0.5
"""Gaussian samples of a list, and how accurately the certified radius is searched."""
WORDS_EVERY = 4
"""One model in so many is certified for any one row, which takes as many certificates as there are rows."""
SIMPLE = ("interval", "product")
"""Proofs that are far from tight: attacked within their radius, no nearest flip is looked for."""
EQUAL = 1e-12
"""Relative rounding of norms."""
NAME = "certified_prediction"


@dataclass(frozen=True, eq=False)
class Promise:
    """No displacement of at most that norm in any one of the sets of entries (masks [sets, n, d]) flips the model."""

    name: str
    radius: float
    free: Tensor


@dataclass(frozen=True)
class WholeCase:
    """All that is needed to draw the model again."""

    model_seed: int

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"model_seed": self.model_seed}


@dataclass(frozen=True, eq=False)
class WholeChecked:
    """What the certificates of one model said beside the flips, and what was drawn."""

    checked: Checked
    tokens: int
    radius: float
    words: dict[str, str]


def model_checked(case: WholeCase) -> WholeChecked:
    """Certify and attack. What fails on the way is a reason to know nothing, never a reason to call it sound."""
    seed = case.model_seed
    network, points, family = drawn_model(seed)
    words = {"function": NAME, **words_of(network, family)}
    try:
        with torch.no_grad():
            promises = [each for each in promises_of(network, points, seed) if each.radius > 0]
        flips = nearest_flips(network, points, promises, seed)
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return WholeChecked(Checked((), (reason,)), len(points), 0.0, words)
    found = tuple(
        Comparison(f"{NAME}.{each.name}", number, each.radius, EQUAL * each.radius, flip)
        for number, (each, flip) in enumerate(zip(promises, flips, strict=True))
    )
    return WholeChecked(Checked(found), len(points), max((each.radius for each in promises), default=0.0), words)


def promises_of(network: Network, points: Tensor, seed: int) -> Iterator[Promise]:
    """All rows and each row without samples; all, one and (of some models) any row with samples; the simple proofs."""
    everywhere = torch.ones_like(points)
    rows = [torch.zeros_like(points).index_fill_(0, torch.tensor([row]), 1.0) for row in range(len(points))]
    linear = [_linear_radius(network, points, free) for free in (everywhere, *rows)]
    exact = certified_prediction(network, points, deterministic=True, effort=_near(linear[0]))
    yield Promise("deterministic", _kept(exact), everywhere[None])
    alone = [
        certified_prediction(network, points, perturb=row, deterministic=True, effort=_near(linear[1 + row]))
        for row in range(len(rows))
    ]
    for found, free in zip(alone, rows, strict=True):
        yield Promise("deterministic_row", _kept(found), free[None])
    sampled = certified_prediction(network, points, seed=seed, effort=_up_to(exact))
    yield Promise("all", _kept(sampled), everywhere[None])
    row = seed // 2 % len(rows)
    sampled = certified_prediction(network, points, perturb=row, seed=seed, effort=_up_to(alone[row]))
    yield Promise("row", _kept(sampled), rows[row][None])
    if seed // len(rows) % WORDS_EVERY == 0:
        least = min(alone, key=lambda each: each.radius)
        word = certified_word(network, points, range(len(rows)), seed=seed, effort=_up_to(least))
        yield Promise("one_word", _kept(word), torch.stack(rows))
    yield Promise("interval", interval_radius(network.tape(points), everywhere), everywhere[None])
    yield Promise("product", product_radius(network.tape(points)), everywhere[None])


def _linear_radius(network: Network, points: Tensor, free: Tensor) -> float:
    """How far the margin would last if it fell as fast as at first."""
    margins, slope = margins_and_slopes(network.tape(points), points[None])
    return float(margins[0]) / max(float((slope[0] * free).norm()), 1e-12)


def _near(linear: float) -> Effort:
    """The search begins near the linear radius and ends there: hardly a certificate reaches farther."""
    return Effort(accuracy=ACCURACY, start=min(0.85 * linear, 0.1), largest=linear)


def _up_to(exact: PredictionCertificate) -> Effort:
    """Few samples, and no radius above the one that was certified without samples."""
    radius = exact.radius if exact.radius > 0 else 0.01
    return Effort(samples=SAMPLES, planning=SAMPLES, accuracy=ACCURACY, start=0.97 * radius, largest=0.97 * radius)


def _kept(found: PredictionCertificate) -> float:
    """Nothing is promised by a certificate that does not hold."""
    return found.radius if found.verdict == Verdict.HOLDS else 0.0


def nearest_flips(network: Network, points: Tensor, promises: list[Promise], seed: int) -> list[float]:
    """For every promise the norm of the nearest flip found, infinite where there is none: one batch of descents.

    Within the certified radius from the gradient, the worst direction to second order and two random points; at larger
    radii from the first two. Of all points visited that have no positive margin, the nearest is drawn towards the
    clean input as far as it stays one.
    """
    if not promises:
        return []
    owner, free, radii, steps = _starts(network, points, promises, seed)
    tape = network.tape(points)
    best = [(math.inf, torch.zeros_like(points)) for _ in promises]
    for turn in range(STEPS + 1):
        margins, slope = margins_and_slopes(tape, points + steps)
        _remember(best, owner, steps, margins)
        stride = (1.0 if turn == 0 else 0.5) * radii[:, None, None]
        steps = steps - stride * unit(slope * free)
        steps = steps * (radii / lengths(steps).clamp(min=1e-300)).clamp(max=1.0)[:, None, None]
    return [_drawn_near(tape, points, length, step) for length, step in best]


def _starts(
    network: Network, points: Tensor, promises: list[Promise], seed: int
) -> tuple[list[int], Tensor, Tensor, Tensor]:
    """For every descent its promise, its mask, its radius and where it begins."""
    g = torch.Generator().manual_seed(seed)
    drawn = [torch.randn(points.shape, generator=g, dtype=points.dtype) for _ in range(2)]
    units = [torch.zeros_like(points), worst_direction(network, points), *drawn]
    begun = [
        (number, mask, each.radius * RUNG**rung, unit((start * mask)[None])[0])
        for number, each in enumerate(promises)
        for mask in each.free
        for rung in range(1 if each.name in SIMPLE else 1 + RUNGS)
        for start in units[: 2 if rung else 4]
    ]
    radii = torch.tensor([radius for _, _, radius, _ in begun], dtype=points.dtype)
    masks, firsts = torch.stack([mask for _, mask, *_ in begun]), torch.stack([start for *_, start in begun])
    return [number for number, *_ in begun], masks, radii, firsts * radii[:, None, None]


def margins_and_slopes(tape: Tape, batch: Tensor) -> tuple[Tensor, Tensor]:
    """Logit of the clean prediction minus the largest other one, at inputs [batch, n, d], and the derivative."""
    label = int(tape.logits.argmax())
    with torch.enable_grad():
        moved = batch.detach().requires_grad_(True)
        logits = tape.replayed(moved)[-1]
        others = torch.cat([logits[:, :label], logits[:, label + 1 :]], dim=-1).amax(-1)
        margins = logits[:, label] - others
        (slope,) = torch.autograd.grad(margins.sum(), moved)
    return margins.detach(), slope


def _remember(best: list[tuple[float, Tensor]], owner: list[int], steps: Tensor, margins: Tensor) -> None:
    """The shortest displacement so far without a positive margin; what is not a number counts as a flip."""
    norms = lengths(steps)
    for index in (~(margins > 0)).nonzero()[:, 0].tolist():
        if float(norms[index]) < best[owner[index]][0]:
            best[owner[index]] = float(norms[index]), steps[index].clone()


def _drawn_near(tape: Tape, points: Tensor, length: float, step: Tensor) -> float:
    """The shortest part of the displacement that is still a flip, to two percent."""
    if not math.isfinite(length):
        return length
    parts = torch.linspace(0.02, 1.0, 50, dtype=step.dtype)
    with torch.no_grad():
        margins, _ = margins_and_slopes(tape, points + parts[:, None, None] * step)
    flipped = parts[~(margins > 0)]
    return length * float(flipped.min()) if len(flipped) else length


def lengths(batch: Tensor) -> Tensor:
    """Norms of [batch, n, d]."""
    return batch.flatten(1).norm(dim=1)


def unit(batch: Tensor) -> Tensor:
    """Each of norm one, or zero."""
    return batch / lengths(batch).clamp(min=1e-300)[:, None, None]

"""Certificates of whole predictions against attacks, on random small whole models of every kind.

    python -m benchmarks.prediction_soundness --cases 500
    python -m benchmarks.prediction_soundness --cases 5000 --first 500 --minutes 60

A case is a model of one or two blocks (LayerNorm or RMSNorm, before or after; GELU, tanh-GELU, SiLU, ReLU, tanh;
gated or not, causal or not; any pooling and head), an input, and what is certified: all rows, one row, or any row, with
samples or without, by intervals, by constants. Every certificate is attacked within its radius (projected descent of
the margin from the gradient, from the worst direction to second order, and from random points); for our own
certificates the nearest flip is looked for as well. A case is VIOLATED where a margin within the radius is not
positive. Exit status 3 if one was.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.measuring import print_table
from robust_attn.predictions.baselines import interval_radius, product_radius
from robust_attn.predictions.certificate import Effort, certified_prediction
from robust_attn.predictions.steps import Network
from robust_attn.predictions.words import certified_word, worst_direction
from tests.predictions.cases import descended, random_network

KINDS = ("all", "row", "one_word", "deterministic", "interval", "product")
EFFORT = Effort(samples=64, planning=64, accuracy=0.5, start=1e-2)
STEPS, LEAPS = 14, 12


@dataclass(frozen=True)
class Case:
    """What was certified, within which radius, the least margin found there, and the nearest flip (None: none)."""

    seed: int
    kind: str
    radius: float
    least: float
    flip: float | None

    @property
    def violated(self) -> bool:
        """A margin within the radius that is not positive, or a flip inside."""
        return self.radius > 0 and (not self.least > 0 or (self.flip is not None and self.flip < self.radius))


def certified(network: Network, points: Tensor, kind: str, seed: int) -> tuple[float, list[Tensor]]:
    """A radius, and for each set of rows that it speaks of a mask of the entries that may move."""
    everywhere = torch.ones_like(points)
    rows = [torch.zeros_like(points).index_fill_(0, torch.tensor([row]), 1.0) for row in range(len(points))]
    match kind:
        case "row":
            row = seed % len(points)
            found = certified_prediction(network, points, perturb=row, seed=seed, effort=EFFORT)
            return found.radius, [rows[row]]
        case "one_word":
            return certified_word(network, points, range(len(points)), seed=seed, effort=EFFORT).radius, rows
        case "interval":
            return interval_radius(network.tape(points), everywhere), [everywhere]
        case "product":
            return product_radius(network.tape(points)), [everywhere]
        case _:
            deterministic = kind == "deterministic"
            found = certified_prediction(network, points, seed=seed, effort=EFFORT, deterministic=deterministic)
            return found.radius, [everywhere]


def starts(network: Network, points: Tensor, free: Tensor, seed: int) -> Tensor:
    """Unit vectors: the worst direction to second order, and two at random; zero stands for the gradient."""
    g = torch.Generator().manual_seed(seed)
    drawn = [torch.randn(points.shape, generator=g, dtype=points.dtype) for _ in range(2)]
    given = [each * free for each in (worst_direction(network, points), *drawn)]
    return torch.stack([torch.zeros_like(points), *(each / each.norm().clamp(min=1e-300) for each in given)])


def least_margin(network: Network, points: Tensor, radius: float, free: Tensor, units: Tensor) -> float:
    """The smallest margin that descents inside the ball come to."""
    strides = [1.0] + [0.5] * (STEPS - 1)
    return min(
        descended(network, points, radius * unit, radius=radius, free=free, strides=strides)[0] for unit in units
    )


def nearest_flip(network: Network, points: Tensor, radius: float, free: Tensor, units: Tensor) -> float | None:
    """Leaps from the certified radius upward, then halvings: the smallest radius at which a descent flips."""
    low, high = radius, radius
    for _ in range(LEAPS):
        high *= 2
        if least_margin(network, points, high, free, units[:2]) <= 0:
            break
        low = high
    else:
        return None
    for _ in range(3):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if least_margin(network, points, middle, free, units[:2]) <= 0 else (middle, high)
    return high


def case_of(seed: int) -> Case:
    """Drawn from its seed alone."""
    kind = KINDS[seed % len(KINDS)]
    network, points = random_network(seed)
    with torch.no_grad():
        radius, sets = certified(network, points, kind, seed)
    if not radius > 0:
        return Case(seed, kind, 0.0, torch.inf, None)
    tries = [(free, starts(network, points, free, seed)) for free in sets]
    least = min(least_margin(network, points, radius, free, units) for free, units in tries)
    searched = [] if kind in ("interval", "product") else tries
    flips = [nearest_flip(network, points, radius, free, units) for free, units in searched]
    return Case(seed, kind, radius, least, min((flip for flip in flips if flip is not None), default=None))


def table(cases: list[Case]) -> list[list[str]]:
    """Per kind: cases, certified, violated, the largest share of the flip radius that was certified, and the median."""
    rows = []
    for kind in KINDS:
        of_kind = [case for case in cases if case.kind == kind]
        shares = sorted(case.radius / case.flip for case in of_kind if case.flip)
        told = [f"{shares[-1]:.3g}", f"{shares[len(shares) // 2]:.3g}"] if shares else ["-", "-"]
        counts = Counter(case.radius > 0 for case in of_kind)
        rows.append([kind, str(len(of_kind)), str(counts[True]), str(sum(case.violated for case in of_kind)), *told])
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="seed of the first case")
    parser.add_argument("--minutes", type=float, default=None, help="end after so many minutes")
    options = parser.parse_args()
    torch.set_num_threads(1)
    begin, cpu, cases = time.monotonic(), time.process_time(), []
    for seed in range(options.first, options.first + options.cases):
        cases.append(case_of(seed))
        if cases[-1].violated:
            print(f"VIOLATED {cases[-1]}", flush=True)
        if len(cases) % 100 == 0:
            print(f"{len(cases)} cases, {time.process_time() - cpu:.0f} CPU s", flush=True)
        if options.minutes is not None and time.monotonic() - begin > 60 * options.minutes:
            break
    print_table(["certificate", "cases", "certified", "violated", "largest share", "median share"], table(cases))
    print(f"{len(cases)} cases from seed {options.first}, {time.process_time() - cpu:.0f} CPU s")
    return 3 if any(case.violated for case in cases) else 0


if __name__ == "__main__":
    sys.exit(main())

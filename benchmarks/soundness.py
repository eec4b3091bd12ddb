"""Try to break certificates: random layers and measures of every kind, attacked by ascent from singular directions.

    python benchmarks/soundness.py --cases 20000

Prints the number of cases, the closest approach to each bound (observed over certified, 1 would be exact) and the
verdicts; a violation is printed with the seed that repeats it, and the exit status is 3.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from robust_attn.attacks.attack import Attack
from robust_attn.attacks.mass_split import MassSplit
from robust_attn.attacks.move import Move
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.rotary import Rotary
from robust_attn.budget import BUDGETS, Budget
from robust_attn.certificate import certify_batch, verdict
from robust_attn.spectral.lipschitz import local_lipschitz, split_lipschitz
from robust_attn.types import ExitStatus, Verdict

SAMPLES = 10


@dataclass(frozen=True, eq=False)
class Trial:
    """One layer, a batch of measures, a budget and an attack, all drawn from one seed."""

    seed: int
    layer: AttentionLayer
    measure: TokenMeasure
    budget: Budget
    attack: Attack


def uniform(g: torch.Generator, low: float, high: float) -> float:
    return low + (high - low) * float(torch.rand(1, generator=g))


def choice(g: torch.Generator, count: int) -> int:
    return int(torch.randint(count, (1,), generator=g))


def random_layer(g: torch.Generator, d: int) -> AttentionLayer:
    """Masks, biases, shared heads, rotation; weights over three decades, sometimes repeated between heads."""
    groups = 1 + choice(g, 3)
    heads, width, out = groups * (1 + choice(g, 2)), 2 * (1 + choice(g, 2)), 1 + choice(g, 5)
    size, bias = 10 ** uniform(g, -1.5, 1.0), choice(g, 2) * 10 ** uniform(g, -1, 1)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    aligned = choice(g, 4) == 0
    query, key = normal(heads, width, d) * size, normal(groups, width, d) * size
    if aligned:
        query, key = query[:1].expand(heads, -1, -1), key[:1].expand(groups, -1, -1)
    return AttentionLayer(
        query=query,
        query_bias=normal(heads, width) * bias,
        key=key,
        key_bias=normal(groups, width) * bias,
        value=normal(groups, width, d),
        output=normal(heads, out, width),
        offset=normal(out),
        scale=width**-0.5,
        mask=list(Mask)[choice(g, 2)],
        rotary=Rotary(torch.rand(width // 2, generator=g)) if choice(g, 3) == 0 else None,
    )


def random_measure(g: torch.Generator, d: int) -> TokenMeasure:
    """One to twelve tokens, sometimes repeated, clustered or constant; equal, unequal or extreme masses, or padding."""
    length = 1 + choice(g, 12)
    points = torch.randn(SAMPLES, length, d, generator=g, dtype=torch.float64) * 10 ** uniform(g, -1, 0.7)
    shape = choice(g, 5)
    if shape == 0:
        points = points[:, :1].expand(-1, length, -1).clone()
    elif shape == 1:
        points[:, 1:] = points[:, 1:2] if length > 1 else points[:, 1:]
    masses = choice(g, 4)
    if masses == 0:
        weights = (torch.randn(SAMPLES, length, generator=g, dtype=torch.float64) * uniform(g, 0, 4)).softmax(-1)
        return TokenMeasure.weighted(points, weights)
    if masses == 1:
        return TokenMeasure.padded(points, torch.randint(1, length + 1, (SAMPLES,), generator=g))
    return TokenMeasure.uniform(points)


def trial(seed: int) -> Trial:
    g = torch.Generator().manual_seed(seed)
    d = 1 + choice(g, 6)
    budget = list(BUDGETS.values())[choice(g, 3)](10 ** uniform(g, -6, 1))
    attack: Attack = MassSplit(2, 12) if choice(g, 4) == 0 else Move(15)
    return Trial(seed, random_layer(g, d), random_measure(g, d), budget, attack)


def run_trial(case: Trial) -> list[tuple[str, float, Verdict]]:
    """Per sample and bound: its name, observed over certified, and what the verdict on that bound alone would be."""
    seen = case.attack(case.layer, case.measure, case.budget, generator=torch.Generator().manual_seed(1)).observation
    weights, generator = case.budget.weights(case.measure), torch.Generator().manual_seed(2)
    constant = split_lipschitz if case.attack.copies > 1 else local_lipschitz
    estimate = constant(case.layer, case.measure, weights=weights, generator=generator)
    found = []
    for sample, certificate in enumerate(certify_batch(case.layer, seen.base, case.budget, lipschitz=estimate)):
        observed, rounding = float(seen.output_change[sample]), float(seen.rounding[sample])
        found.append(("certificate", observed / certificate.output_change, verdict(observed, rounding, certificate)))
        for bound in certificate.bounds:
            if bound.certifies and bound.output_change > 0:
                broken = observed - rounding > bound.output_change
                found.append(
                    (
                        bound.name,
                        (observed - rounding) / bound.output_change,
                        Verdict.VIOLATED if broken else Verdict.HOLDS,
                    )
                )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--first-seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    started, verdicts, violations = time.monotonic(), Counter[str](), 0
    closest: dict[str, tuple[float, int]] = {}
    trials = -(-arguments.cases // SAMPLES)
    for seed in range(arguments.first_seed, arguments.first_seed + trials):
        for name, ratio, outcome in run_trial(trial(seed)):
            if name == "certificate":
                verdicts[str(outcome)] += 1
            if outcome is Verdict.VIOLATED:
                violations += 1
                print(f"VIOLATED: seed {seed}, bound {name}, observed over certified {ratio}", flush=True)
            if ratio > closest.get(name, (-1.0, 0))[0]:
                closest[name] = (ratio, seed)
    table = Table(
        title=f"{trials * SAMPLES} cases, {violations} violations, {time.monotonic() - started:.0f} s; {dict(verdicts)}"
    )
    for column in ("bound", "closest approach", "seed"):
        table.add_column(column)
    for name, (ratio, seed) in sorted(closest.items()):
        table.add_row(name, f"{ratio:.6f}", str(seed))
    Console(width=140).print(table)
    sys.exit(ExitStatus.VIOLATED if violations else ExitStatus.OK)


if __name__ == "__main__":
    main()

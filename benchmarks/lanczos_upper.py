"""How far the upper value of a Lanczos run is above the lower one after so many steps; what the steps alone promise.

    python -m benchmarks.lanczos_upper

One sample of 32 tokens, failure probability 5e-10, one start for all numbers of steps.
"""

from __future__ import annotations

import torch

from benchmarks.measuring import print_table, prose_case
from robust_attn.attention.operator import ScaledJacobian
from robust_attn.spectral.lanczos import bidiagonalize, finite_svd, start_generator, upper_factor
from robust_attn.spectral.run_upper import run_upper, smallest_start

LAYERS = (
    ("bert", "random", 0),
    ("gpt2", "random", 0),
    ("minilm", "pretrained", 0),
    ("minilm", "pretrained", 3),
    ("smollm2", "pretrained", 10),
)
STEPS = (12, 16, 20, 24, 32, 40, 48, 64)
CHANCE = 5e-10


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for name, weights, index in LAYERS:
        layer, measure = prose_case(name, weights, index, 32)
        operator = ScaledJacobian(layer.linearize(measure), measure.masses)
        start = torch.from_numpy(start_generator(5).standard_normal(tuple(operator.domain)))
        run = bidiagonalize(operator, start, STEPS[-1])
        size, excess = operator.domain[-2:].numel(), []
        for steps in STEPS:
            lower = float(finite_svd(run.matrix()[..., :steps, :steps])[1].flatten()[0])
            alphas, betas = (field.flatten()[:steps].tolist() for field in (run.alphas, run.betas))
            excess.append(f"{run_upper(alphas, betas, lower, smallest_start(size, CHANCE)) / lower - 1:.1e}")
        rows.append([f"{name} {index}", *excess, f"{upper_factor(size, STEPS[-1], CHANCE) - 1:.1e}"])
    print_table(["layer", *(f"k = {steps}" for steps in STEPS), f"{STEPS[-1]} steps alone"], rows)


if __name__ == "__main__":
    main()

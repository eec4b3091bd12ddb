"""What one Lanczos step costs, in forward passes of the layer: jvp, vjp and both reorthogonalisations.

    python -m benchmarks.step_cost            # random BERT-base layer, n = 64, 256, 512
    python -m benchmarks.step_cost --quick

CPU time on one thread, medians of interleaved repeats. The step is the mean over a run of `--steps` steps, so
reorthogonalisation against a growing basis is in it; the forward pass is `layer(measure)`. Target: at most 4.
"""

from __future__ import annotations

import argparse

import torch

from benchmarks.measuring import interleaved, print_table, prose_case
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.operator import ScaledJacobian
from robust_attn.spectral.lanczos import bidiagonalize


def cost(layer: AttentionLayer, measure: TokenMeasure, steps: int, repeats: int) -> list[str]:
    operator = ScaledJacobian(layer.linearize(measure), measure.masses)
    field = torch.randn(operator.domain, dtype=layer.dtype, generator=torch.Generator().manual_seed(0))
    forward, jvp, vjp, run = interleaved(
        [
            lambda: layer(measure),
            lambda: operator.jvp(field),
            lambda: operator.vjp(field),
            lambda: bidiagonalize(operator, field, steps),
        ],
        repeats,
    )
    step = run / steps
    rest = step - jvp - vjp
    ratios = [jvp / forward, vjp / forward, rest / forward, step / forward]
    return [str(measure.length), str(layer.dtype)[6:], f"{1e3 * forward:.1f}", *(f"{ratio:.2f}" for ratio in ratios)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="n = 64 alone, fewer steps and repeats")
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    steps, repeats = (8, 1) if options.quick else (options.steps, options.repeats)
    rows = []
    for tokens in (64,) if options.quick else (64, 256, 512):
        layer, measure = prose_case("bert", "random", 0, tokens)
        rows += [cost(layer.to(dtype), measure.to(dtype), steps, repeats) for dtype in (torch.float64, torch.float32)]
    print(f"cost of one of {steps} Lanczos steps, in forward passes")
    print_table(["n", "dtype", "forward ms", "jvp", "vjp", "rest", "step"], rows)


if __name__ == "__main__":
    main()

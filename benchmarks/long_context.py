"""Memory and time against the length, on a BERT-base-size layer (d = 768, 12 heads) in float64, up to n = 4096.

    python -m benchmarks.long_context             # n = 256 ... 4096, each in a fresh process
    python -m benchmarks.long_context --quick

Peak memory is the child's ru_maxrss; time is CPU time on one thread of `local_lipschitz(tolerance=1e-6)`, at most
`--steps` steps, which also gives the time of a step. Tokens are standard normal and weights N(0, 1/d) times 1.
Target at n = 4096: below 6 GB.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys

import torch

from benchmarks.measuring import cpu_seconds, print_table
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.spectral.lanczos import LipschitzEstimate
from robust_attn.spectral.lipschitz import local_lipschitz

D, HEADS, WIDTH = 768, 12, 64


def base_layer(g: torch.Generator) -> AttentionLayer:
    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64) / math.sqrt(D)

    return AttentionLayer(
        query=normal(HEADS, WIDTH, D),
        query_bias=normal(HEADS, WIDTH),
        key=normal(HEADS, WIDTH, D),
        key_bias=normal(HEADS, WIDTH),
        value=normal(HEADS, WIDTH, D),
        output=normal(HEADS, D, WIDTH),
        offset=normal(D),
        scale=WIDTH**-0.5,
    )


def one_length(length: int, steps: int) -> dict[str, float]:
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(0)
    layer = base_layer(g)
    measure = TokenMeasure.uniform(torch.randn(1, length, D, generator=g, dtype=torch.float64))
    found: list[LipschitzEstimate] = []
    seconds = cpu_seconds(lambda: found.append(local_lipschitz(layer, measure, steps=steps, tolerance=1e-6)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    estimate = found[0]
    return {
        "n": length,
        "steps": estimate.steps,
        "seconds": seconds,
        "peak_gb": peak,
        "lower": float(estimate.lower),
        "upper": float(estimate.upper),
        "residual": float(estimate.residual),
    }


def exponent(rows: list[dict[str, float]]) -> float:
    """Slope of log(seconds per step) against log(n), by least squares."""
    x = torch.tensor([math.log(row["n"]) for row in rows])
    y = torch.tensor([math.log(row["seconds"] / row["steps"]) for row in rows])
    x, y = x - x.mean(), y - y.mean()
    return float((x * y).sum() / (x * x).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="n = 128, 256")
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--lengths", type=int, nargs="+", default=[256, 512, 1024, 2048, 4096])
    parser.add_argument("--one", type=int, help="this length in this process; used by the script itself")
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(one_length(options.one, options.steps)))
        return
    rows = []
    for length in [128, 256] if options.quick else options.lengths:
        command = [sys.executable, "-m", "benchmarks.long_context", "--one", str(length), "--steps", str(options.steps)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        print(rows[-1], flush=True)
    names = ["n", "steps", "peak_gb", "seconds", "lower", "upper", "residual"]
    print_table(names, [[f"{row[name]:.4g}" for name in names] for row in rows])
    print(f"seconds per step ~ n^{exponent(rows):.2f} over all lengths, n^{exponent(rows[-2:]):.2f} over the last two")


if __name__ == "__main__":
    main()

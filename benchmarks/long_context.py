"""Memory and time of the local Lipschitz constant against the length, in float64, beside what they must be.

    python -m benchmarks.long_context                                      # n = 256 ... 4096, each in a fresh process
    python -m benchmarks.long_context --model smollm2 --layer 10 --lengths 512 2048 8192 16384
    python -m benchmarks.long_context --quick

Without `--model` a BERT-base-size layer (d = 768, 12 heads) at standard normal tokens, weights N(0, 1/d). With one, a
layer of it at running English; what the model cannot read in one context is read in several, one after the other, and
put together at consecutive positions.

Peak memory is the child's ru_maxrss; time is CPU time on one thread of `local_lipschitz`, at most `--steps` steps, all
that it does included. `floor` is the time of as many steps on a machine that does nothing but the products that a step
consists of, at the rate of a product of two 2048 x 2048 matrices, or moves the bytes, whichever takes longer (both
rates are measured in the same process); `ratio` is the time over that.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import statistics
import subprocess
import sys

import torch

import robust_attn as ra
from benchmarks.measuring import cpu_seconds, print_table, timed
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.data.source import Prose, text_windows
from robust_attn.spectral.lipschitz import local_lipschitz

D, HEADS, WIDTH = 768, 12, 64
SIDE = 2048
NAMES = ("n", "steps", "peak_gb", "seconds", "tflop_a_step", "gb_a_step", "floor", "ratio", "lower", "upper")


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


def long_text(name: str, index: int, length: int) -> tuple[AttentionLayer, TokenMeasure]:
    """A layer of a pretrained model and what arrives at it on English prose; the model runs in float32."""
    model = ra.load_model(name, dtype=torch.float32)
    ids = text_windows(Prose(), model, tokens=length, samples=1)[0].ids[:length]
    most = model.max_tokens or length
    contexts = [torch.tensor([ids[start : start + most]]) for start in range(0, length, most)]
    points = torch.cat([model.inputs_at([index], context)[index].points for context in contexts], dim=1)
    return model.layer(index).to(torch.float64), TokenMeasure.uniform(points.double())


def case(length: int, name: str | None, index: int) -> tuple[AttentionLayer, TokenMeasure]:
    if name is not None:
        return long_text(name, index, length)
    g = torch.Generator().manual_seed(0)
    layer = base_layer(g)
    return layer, TokenMeasure.uniform(torch.randn(1, length, D, generator=g, dtype=torch.float64))


def step_flops(layer: AttentionLayer, length: int) -> float:
    """Of one product with the derivative and one with its transpose, attention weights recomputed in each.

    Either has three products of the width of a head (logits, and two for slopes or gradients) and two of the width of
    its values for every pair that sees each other, and projects every token once.
    """
    pairs = length**2 if layer.mask is Mask.NONE else length * (length + 1) / 2
    inner = 2 * (3 * layer.query.shape[1] + 2 * layer.value.shape[1])
    projections = 2 * length * (layer.stacked_projections.numel() + layer.stacked_output.numel())
    return 2.0 * (layer.heads * pairs * inner + projections)


def step_bytes(layer: AttentionLayer, length: int, steps: int) -> float:
    """Fields that a step reads and writes once, and two bases of on average half of all steps, each read twice."""
    heads = 16 * layer.heads * layer.query.shape[1]
    return 8.0 * length * (heads + 4 * layer.width + 2 * steps * layer.width)


def machine() -> tuple[float, float]:
    """Float64 operations and bytes a second of one thread, medians of five."""
    left, right = torch.randn(2, SIDE, SIDE, dtype=torch.float64)
    field = torch.empty(2**25, dtype=torch.float64)
    other = torch.zeros_like(field)
    product = statistics.median(cpu_seconds(lambda: left @ right) for _ in range(5))
    copy = statistics.median(cpu_seconds(lambda: other.copy_(field)) for _ in range(5))
    return 2 * SIDE**3 / product, 2 * 8 * field.numel() / copy


def one_length(length: int, options: argparse.Namespace) -> dict[str, float]:
    torch.set_num_threads(1)
    layer, measure = case(length, options.model, options.layer)
    flops_rate, bytes_rate = machine()
    estimate, seconds = timed(
        lambda: local_lipschitz(layer, measure, steps=options.steps, tolerance=options.tolerance, seed=0)
    )
    flops, moved = step_flops(layer, length), step_bytes(layer, length, estimate.steps)
    floor = estimate.steps * max(flops / flops_rate, moved / bytes_rate)
    return {
        "n": length,
        "steps": estimate.steps,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "seconds": seconds,
        "tflop_a_step": flops / 1e12,
        "gb_a_step": moved / 1e9,
        "floor": floor,
        "ratio": seconds / floor,
        "lower": float(estimate.lower),
        "upper": float(estimate.upper),
        "gflops": flops_rate / 1e9,
        "gb_s": bytes_rate / 1e9,
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
    parser.add_argument("--tolerance", type=float, help="ends a run at this error; by default where both sides meet")
    parser.add_argument("--lengths", type=int, nargs="+", default=[256, 512, 1024, 2048, 4096])
    parser.add_argument("--model", help="a model of the catalog; by default a random layer of the size of BERT's")
    parser.add_argument("--layer", type=int, default=0)
    parser.add_argument("--one", type=int, help="this length in this process; used by the script itself")
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(one_length(options.one, options)))
        return
    rows = []
    for length in [128, 256] if options.quick else options.lengths:
        command = [sys.executable, "-m", "benchmarks.long_context", *sys.argv[1:], "--one", str(length)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        print(rows[-1], file=sys.stderr, flush=True)
    print_table(NAMES, [[f"{row[name]:.4g}" for name in NAMES] for row in rows])
    for name, unit in (("gflops", "Gflop/s of a product of large matrices"), ("gb_s", "GB/s of a copy")):
        print(f"{min(row[name] for row in rows):.3g} to {max(row[name] for row in rows):.3g} {unit}")
    if len(rows) > 1:
        print(
            f"seconds per step ~ n^{exponent(rows):.2f} over all lengths, n^{exponent(rows[-2:]):.2f} over the last two"
        )


if __name__ == "__main__":
    main()

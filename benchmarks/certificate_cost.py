"""What certificates cost: all layers of a BERT-base at 128 tokens, as a multiple of the model's own forward pass.

    python -m benchmarks.certificate_cost            # 12 layers, 128 tokens
    python -m benchmarks.certificate_cost --quick    # 2 layers, 32 tokens

CPU time on one thread, everything in one process. The forward pass is that of the transformers model itself, in float64
as the certificates. Memory is the peak of the process less its size once model and inputs are there: target < 2 GB.
"""

from __future__ import annotations

import argparse
import resource
from functools import partial

import torch

from benchmarks.measuring import cpu_seconds, print_table, timed
from robust_attn.budget import Wasserstein
from robust_attn.certificates.layer import certify_batch
from robust_attn.data.source import Prose, read_inputs
from robust_attn.models import load_model
from robust_attn.spectral.lipschitz import local_lipschitz
from robust_attn.spectral.norms import head_norms


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2 layers, 32 tokens")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--radius", type=float, default=0.01)
    options = parser.parse_args()
    torch.set_num_threads(1)
    tokens = 32 if options.quick else options.tokens
    model = load_model("bert", "random", dtype=torch.float64, seed=0)
    layers = tuple(range(2 if options.quick else model.layers))
    generator = torch.Generator().manual_seed(0)
    inputs = read_inputs(Prose(), model, layers=layers, tokens=tokens, samples=1, generator=generator).measures
    ids = torch.randint(1000, 20000, (1, tokens))
    with torch.no_grad():
        model.module(input_ids=ids)
        forward = min(cpu_seconds(lambda: model.module(input_ids=ids)) for _ in range(5))
    before, budget = peak_gb(), Wasserstein(options.radius)
    rows, total = [], 0.0
    for index in layers:
        layer, measure = model.layer(index), inputs[index]
        norms, norms_time = timed(partial(head_norms, layer))
        weights = budget.weights(measure)
        estimate, lanczos_time = timed(partial(local_lipschitz, layer, measure, weights=weights))
        found, bounds_time = timed(partial(certify_batch, layer, measure, budget, lipschitz=estimate, norms=norms))
        times = (norms_time, lanczos_time, bounds_time)
        total += sum(times)
        excess = found[0].output_change / (options.radius * float(estimate.lower[0]))
        rows.append([str(index), *(f"{t / forward:.1f}" for t in times), str(found[0].bound), f"{excess:.3f}"])
        print("  ".join(rows[-1]), flush=True)
    print_table(["layer", "norms", "Lanczos, 64 steps", "all bounds", "certified by", "certified / exact"], rows)
    print(
        f"{len(layers)} layers, {tokens} tokens: {total:.1f} s, {total / forward:.0f} forward passes of the model "
        f"({forward:.2f} s); peak {peak_gb() - before:.2f} GB above model and inputs ({before:.2f} GB)"
    )


if __name__ == "__main__":
    main()

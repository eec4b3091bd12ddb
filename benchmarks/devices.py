"""What a device gains over the CPU, and whether it finds the same: for people who have one.

    python -m benchmarks.devices cuda             # or cuda:1, mps; cpu compares the CPU with itself
    python -m benchmarks.devices cuda --tokens 512

Wall time, as a ratio to the CPU in the same run: medians of calls in turn, the device waited for after each.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

import robust_attn as ra
from benchmarks.measuring import print_table, prose_case
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.models.devices import device_named

Job = Callable[[AttentionLayer, TokenMeasure], Tensor]
BUDGET = ra.Wasserstein(0.01)


def attacked(layer: AttentionLayer, measure: TokenMeasure) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return ra.Move(steps=20, restarts=1)(layer, measure, BUDGET, generator=generator).observation.output_change


def certified(layer: AttentionLayer, measure: TokenMeasure) -> Tensor:
    return torch.tensor([ra.certify(layer, measure.sample(0), BUDGET, seed=0).output_change])


JOBS: dict[str, Job] = {
    "one pass": lambda layer, measure: layer(measure).flatten()[:1],
    "local constant": lambda layer, measure: ra.local_lipschitz(layer, measure, seed=0).upper,
    "certificate": certified,
    "attack": attacked,
}


def finished(job: Job, layer: AttentionLayer, measure: TokenMeasure) -> tuple[float, float]:
    """What the job found, and how long it took, the device waited for (`.item()` waits)."""
    start = time.perf_counter()
    found = job(layer, measure).flatten()[0].item()
    return found, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device")
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--layer", type=int, default=0)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    device = device_named(options.device)
    layer, measure = prose_case(options.model, "auto", options.layer, options.tokens)
    if device.type == "mps":
        layer, measure = layer.to(torch.float32), measure.to(torch.float32)
    places = [(layer, measure), (layer.on(device), measure.on(device))]
    rows = []
    for name, job in JOBS.items():
        values = [0.0, 0.0]
        times: list[list[float]] = [[], []]
        for _ in range(options.repeats + 1):
            for index, place in enumerate(places):
                values[index], seconds = finished(job, *place)
                times[index].append(seconds)
        ratio = statistics.median(times[0][1:]) / statistics.median(times[1][1:])
        rows.append([name, f"{ratio:.2f}", f"{abs(values[1] / values[0] - 1):.1e}"])
    print_table(["job", f"times faster on {device}", "relative difference"], rows)


if __name__ == "__main__":
    main()

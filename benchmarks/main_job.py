"""Where the time of `python -m robust_attn attack=mass_split` goes: every phase of a layer, in forward passes.

    python -m benchmarks.main_job                              # random BERT, layers 0 and 1, 4 samples of 32 tokens
    python -m benchmarks.main_job --model minilm --layers 0 3

CPU time on one thread. A forward pass is that of the transformers model on the same samples, in float64, over its
number of layers: what one layer of the model costs by itself.
"""

from __future__ import annotations

import argparse
from functools import partial

import torch

from benchmarks.measuring import cpu_seconds, print_table, timed
from robust_attn.attacks.mass_split import MassSplit
from robust_attn.bounds.rows import KnownRows
from robust_attn.budget import Wasserstein
from robust_attn.certificates.layer import certify_batch
from robust_attn.certificates.measures import certify_context
from robust_attn.data.source import Prose, read_inputs
from robust_attn.models import AttentionModel, load_model
from robust_attn.observation import observe
from robust_attn.pipeline.checks import _hygiene
from robust_attn.pipeline.jobs import LayerJob, Subject, generator_for
from robust_attn.pipeline.motion import motion_parts
from robust_attn.spectral.lipschitz import split_lipschitz
from robust_attn.spectral.norms import head_norms

PHASES = ("attack", "of it measuring", "Lanczos", "norms", "rows", "bounds", "in context", "hygiene", "motion")


def phases(job: LayerJob, radius: float) -> list[float]:
    """CPU seconds of each phase of one layer."""
    budget, layer, inputs = Wasserstein(radius), job.layer, job.inputs
    splitting = MassSplit().in_context(job.longest)
    attack = partial(splitting, layer, inputs, budget, generator=generator_for(0, "attack", job.subject.layer))
    result, attacking = timed(attack)
    seen = result.observation
    _, measuring = timed(partial(observe, layer, seen.base, seen.measure.points, budget))
    norms, norming = timed(partial(head_norms, layer, positions=inputs.positions))
    rows, looking = timed(partial(KnownRows.at, layer, seen.base))
    queries = None if rows is None else rows.query_norm
    constant = partial(split_lipschitz, layer, inputs, weights=inputs.masses, seed=0, queries=queries)
    estimate, lanczos = timed(constant)
    known = {"lipschitz": estimate, "norms": norms, "known": rows}
    _, bounding = timed(partial(certify_batch, layer, seen.base, budget, **known))
    promise = partial(certify_context, layer, inputs, budget, context=splitting.context_length, **known)
    _, promising = timed(promise)
    _, hygiene = timed(partial(_hygiene, job, result, seed=0))
    _, motion = timed(partial(motion_parts, seen, inputs.length))
    return [attacking, measuring, lanczos, norming, looking, bounding, promising, hygiene, motion]


def forward_seconds(model: AttentionModel, samples: int, tokens: int) -> float:
    """One layer's part of a forward pass of the whole model."""
    ids = torch.randint(1000, 20000, (samples, tokens), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        model.module(input_ids=ids)
        return min(cpu_seconds(lambda: model.module(input_ids=ids)) for _ in range(5)) / model.layers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bert")
    parser.add_argument("--layers", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--radius", type=float, default=0.01)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model, loading = timed(partial(load_model, options.model, "auto", dtype=torch.float64, seed=0))
    inputs = read_inputs(
        Prose(),
        model,
        layers=options.layers,
        tokens=options.tokens,
        samples=options.samples,
        generator=generator_for(0, "data", options.tokens),
    ).measures
    forward = forward_seconds(model, options.samples, options.tokens)
    rows = []
    for layer in options.layers:
        job = LayerJob(
            Subject(model.name, model.origin.label, layer), model.layer(layer), inputs[layer], model.max_tokens
        )
        found = phases(job, options.radius)
        whole = sum(found) - found[1]
        rows.append([layer, *(f"{each / forward:.1f}" for each in found), f"{whole / forward:.0f}", f"{whole:.2f}"])
    print(
        f"{model.name} ({model.origin.label}), {options.samples} x {options.tokens} tokens: forward passes of a layer"
    )
    print(f"one is {1e3 * forward:.1f} ms of CPU; loading the model {loading:.1f} s")
    print_table(["layer", *PHASES, "together", "seconds"], rows)


if __name__ == "__main__":
    main()

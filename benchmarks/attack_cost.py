"""What one step of an attack costs, in forward passes of the layer: one forward pass, one vjp, projections, memory.

    python -m benchmarks.attack_cost            # random BERT-base, GPT-2 and pretrained MiniLM layers, n = 128
    python -m benchmarks.attack_cost --quick    # MiniLM alone, n = 64

CPU time on one thread, medians of interleaved repeats. `roam` and `climb` are the two kinds of step of an ascent, each
the mean over a run of `--steps` of them (a climb's memory fills on the way); `split` is a climb on two copies of every
token, in forward passes of the copies; `attack` is a whole `Move` with starts, Lanczos and measuring, by its gradients.
Target: a step at most 4.
"""

from __future__ import annotations

import argparse

import torch

from benchmarks.measuring import interleaved, print_table, prose_case, timed
from robust_attn.attacks import ascent
from robust_attn.attacks.move import Move
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Wasserstein

LAYERS = (("minilm", "pretrained", 3), ("bert", "random", 0), ("gpt2", "random", 0))
BUDGET = Wasserstein(0.1)


def steps_of(layer: AttentionLayer, measure: TokenMeasure, steps: int, repeats: int) -> list[float]:
    """Forward pass, step of roaming and step of climbing, in seconds."""
    objective = ascent.output_change(layer, measure, BUDGET)
    start = BUDGET.sample(measure, torch.Generator().manual_seed(0))
    begun = ascent._begun(objective, measure, BUDGET, start)
    climbed = ascent._climbed(begun, objective, measure, BUDGET, steps=steps)
    forward, roam, climb = interleaved(
        [
            lambda: layer(measure),
            lambda: ascent._roamed(begun, objective, measure, BUDGET, steps=steps),
            lambda: ascent._climbed(begun, objective, measure, BUDGET, steps=steps),
        ],
        repeats,
    )
    return [forward, roam / steps, climb / (climbed.steps - begun.steps)]


def cost(layer: AttentionLayer, measure: TokenMeasure, steps: int, repeats: int) -> list[str]:
    forward, roam, climb = steps_of(layer, measure, steps, repeats)
    twice, _, split = steps_of(layer, measure.split(2), steps, repeats)
    found, whole = timed(lambda: Move()(layer, measure, BUDGET, generator=torch.Generator().manual_seed(0)))
    ratios = [roam / forward, climb / forward, split / twice, whole / found.gradients / forward]
    return [f"{1e3 * forward:.1f}", *(f"{ratio:.2f}" for ratio in ratios), str(found.gradients)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="MiniLM alone, n = 64")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    tokens, layers = (64, LAYERS[:1]) if options.quick else (128, LAYERS)
    rows = []
    for name, weights, index in layers:
        layer, measure = prose_case(name, weights, index, tokens)
        rows.append([f"{name} ({weights})", *cost(layer, measure, options.steps, options.repeats)])
    print(f"cost of one attack step at {tokens} tokens, in forward passes; attack: per gradient of a whole attack")
    print_table(["layer", "forward ms", "roam", "climb", "split", "attack", "gradients"], rows)


if __name__ == "__main__":
    main()

"""Every suitable attack of torchattacks on one layer of a pretrained model, beside ours, in the same budget.

    python -m benchmarks.torchattacks_on_layer               # minilm, layer 3, 32 tokens of prose
    python -m benchmarks.torchattacks_on_layer --quick       # 16 tokens and the attacks in L2 alone

Gains are output change per unit of the budget's radius, as the framework measured them after projection; `used` is the
part of the radius that the attack used. Steps are the same for all; some spend several gradients on a step.
"""

from __future__ import annotations

import argparse
import time

import torch

from benchmarks.measuring import print_table, prose_case
from robust_attn.attacks.attack import Attack
from robust_attn.attacks.baseline import RandomMove
from robust_attn.attacks.move import Linear, Move
from robust_attn.attacks.torchattacks_bridge import Torchattack
from robust_attn.attacks.torchattacks_table import SUITABLE, Ball
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import BUDGETS, Budget


def row(attack: Attack, layer: AttentionLayer, measure: TokenMeasure, budgets: list[Budget]) -> list[str]:
    cells, started = [], time.process_time()
    for budget in budgets:
        found = attack(layer, measure, budget, generator=torch.Generator().manual_seed(0))
        observation = found.observation
        gain, used = float(observation.output_change) / budget.radius, float(observation.input_change) / budget.radius
        cells += [f"{gain:.3f}", f"{used:.2f}"]
    return [attack.name, *cells, str(found.gradients), f"{time.process_time() - started:.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="16 tokens, attacks in L2 alone")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--radii", type=float, nargs="+", default=[0.001, 0.1])
    parser.add_argument("--budget", choices=sorted(BUDGETS), default="wasserstein")
    options = parser.parse_args()
    torch.set_num_threads(1)
    layer, measure = prose_case("minilm", "pretrained", 3, 16 if options.quick else 32)
    sample = measure.sample(0) if measure.points.dim() > 2 else measure
    budgets = [BUDGETS[options.budget](radius) for radius in options.radii]
    names = [name for name, suited in SUITABLE.items() if not options.quick or suited.ball is not Ball.LINF]
    attacks = [Move(options.steps), Linear(), RandomMove(), *(Torchattack(name, options.steps) for name in names)]
    print(f"minilm layer 3, {sample.length} tokens, {options.budget} budget, {options.steps} steps")
    head = [f"{what} at {radius:g}" for radius in options.radii for what in ("gain", "used")]
    print_table(["attack", *head, "gradients", "seconds"], [row(each, layer, sample, budgets) for each in attacks])


if __name__ == "__main__":
    main()

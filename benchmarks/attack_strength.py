"""How strong `move` is, beside the exact local constant and beside other attacks with as many gradients or more.

    python -m benchmarks.attack_strength                     # four layers, 64 tokens, radii 1e-4 to 3 (an hour)
    python -m benchmarks.attack_strength --quick             # minilm alone, 32 tokens, three radii (a minute)

`of exact` is move's gain over the local Lipschitz constant, `steps` its gradient steps in depth, `gradients` its cost
over all starts. `PGDL2` is torchattacks' attack through the affine box with as many gradients, `plain` the best of ten
random restarts of plain projected ascent, each with as many: ten times as many in all, half of the restarts with the
step 2.5 radius / steps (Madry et al. 2018), half with a quarter of the radius. The columns are move over the other.
Exit status 1 if move is beaten by more than a millionth anywhere, or stays below 0.999 of exact at 1e-4.
"""

from __future__ import annotations

import argparse
import sys

import torch

from benchmarks.measuring import print_table, prose_case
from robust_attn.attacks.ascent import output_change, repeated
from robust_attn.attacks.attack import AttackResult
from robust_attn.attacks.move import Move
from robust_attn.attacks.torchattacks_bridge import Torchattack
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget, Wasserstein
from robust_attn.spectral.lipschitz import local_lipschitz

LAYERS = (("minilm", "pretrained", 3), ("bert", "random", 0), ("gpt2", "random", 0), ("smollm2", "pretrained", 10))
RADII = (1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0, 3.0)
TIE = 1e-6


def plain_ascent(
    layer: AttentionLayer, measure: TokenMeasure, budget: Budget, *, steps: int, restarts: int, seed: int = 0
) -> torch.Tensor:
    """Per sample the largest output change met on the way of plain projected ascent from random starts."""
    many = repeated(measure, restarts)
    objective = output_change(layer, many, budget)
    place = budget.sample(many, torch.Generator().manual_seed(seed))
    lengths = torch.tensor([2.5 / steps, 0.25], dtype=place.dtype).repeat(restarts)[:restarts]
    length = lengths.reshape(-1, *([1] * (place.dim() - 1)))
    best, gradient = objective(place)
    for _ in range(steps - 1):
        place = budget.project(place + length * budget.steepest(gradient, many), many)
        value, gradient = objective(place)
        best = torch.maximum(best, value)
    return best.amax(0)


def pgd(layer: AttentionLayer, measure: TokenMeasure, budget: Budget, gradients: int) -> float:
    attack = Torchattack("PGDL2", gradients)
    found = attack(layer, measure, budget, generator=torch.Generator().manual_seed(0))
    return float(found.observation.output_change[0])


def compared(
    layer: AttentionLayer, measure: TokenMeasure, radius: float, exact: float, restarts: int
) -> tuple[list[str], bool]:
    budget = Wasserstein(radius)
    found: AttackResult = Move()(layer, measure, budget, generator=torch.Generator().manual_seed(0))
    change, spent = float(found.observation.output_change[0]), found.gradients
    others = [
        pgd(layer, measure, budget, spent),
        float(plain_ascent(layer, measure, budget, steps=spent, restarts=restarts)[0]),
    ]
    reached = change / (radius * exact)
    beaten = any(change < other * (1 - TIE) for other in others) or (radius <= 1e-4 and reached < 0.999)
    ratios = [f"{change / other:.6f}" for other in others]
    cells = [f"{change / radius:.4f}", f"{reached:.5f}", str(len(found.history) - 1), str(spent), *ratios]
    return [f"{radius:g}", *cells], beaten


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="minilm alone, 32 tokens, three radii")
    parser.add_argument("--layers", nargs="+", choices=[name for name, _, _ in LAYERS], help="some of the layers")
    parser.add_argument("--radii", type=float, nargs="+", default=RADII)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--restarts", type=int, default=10)
    options = parser.parse_args()
    torch.set_num_threads(1)
    names = ["minilm"] if options.quick else (options.layers or [name for name, _, _ in LAYERS])
    radii, tokens = ((1e-4, 0.1, 3.0), 32) if options.quick else (options.radii, options.tokens)
    failed = False
    for name, weights, index in (layer for layer in LAYERS if layer[0] in names):
        layer, measure = prose_case(name, weights, index, tokens)
        exact = float(local_lipschitz(layer, measure, steps=200, tolerance=1e-8).lower[0])
        print(f"{name} ({weights}), layer {index}, {tokens} tokens, exact local constant {exact:.6g}", flush=True)
        rows = []
        for radius in radii:
            cells, beaten = compared(layer, measure, radius, exact, options.restarts)
            rows.append([*cells, "BEATEN" if beaten else "ok"])
            failed |= beaten
        header = ["radius", "move's gain", "of exact", "steps", "gradients", "over PGDL2", "over plain", ""]
        print_table(header, rows)
    sys.exit(int(failed))


if __name__ == "__main__":
    main()

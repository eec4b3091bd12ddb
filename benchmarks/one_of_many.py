"""One token of a long context moved at one layer, beside all tokens moved with the same W2; both beside what is proved.

    python -m benchmarks.one_of_many                               # SmolLM2, layer 10, n = 512 and 2048
    python -m benchmarks.one_of_many --layer 20 --lengths 8192
    python -m benchmarks.one_of_many --quick

What arrives at the layer is running English (data=prose) read by the model in float32; the layer is looked at in
float64. A token of n has mass 1/n, so within W2 `--radius` it alone may go radius * sqrt(n). Gains are output change
per radius, in the norm of the masses, measured by whole forward passes.

    one, which          the strongest of `--tries` tokens (those with the largest upper values, the first, one in the
                        middle, the last), by `--search` steps of two kinds on the layer's output as a function of it
    certified           for that token moved alone; `any` for whichever token
    all                 all tokens moved: the better of two starts (the direction of the largest singular value, and the
                        one token), each by `--climb` steps of ascent
    constant            the local Lipschitz constant: at least, and at most (fails with 1e-9); it bounds changes that
                        are infinitely small, and none within a budget
    hull                all tokens moved, certified: all that is known at these lengths
"""

from __future__ import annotations

import argparse
import math
import resource
import time

import torch
from torch import Tensor

from benchmarks.long_context import long_text
from benchmarks.measuring import print_table
from robust_attn.attention.jacobian import LayerJacobian
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.moved_token import MovedToken, strongest_displacement
from robust_attn.bounds.one_token import OneToken
from robust_attn.budget import Wasserstein
from robust_attn.observation import moved_inside
from robust_attn.spectral.lipschitz import local_lipschitz

NAMES = ["n", "reach", "which", "one", "certified", "any", "all", "constant", "at most", "hull", "CPU s", "peak GB"]


def candidates(bounds: OneToken, tries: int) -> list[int]:
    """Tokens with the largest upper values, and three that are always looked at."""
    length = len(bounds.each)
    return list(dict.fromkeys([0, length // 2, length - 1, *bounds.each.topk(min(tries, length)).indices.tolist()]))


def observed(before: LayerJacobian, displacement: Tensor, budget: Wasserstein) -> tuple[float, LayerJacobian, Tensor]:
    """The gain of a displacement once it is certainly inside the budget, where it leads, and what the output does."""
    measure = before.measure
    after = before.layer.linearize(moved_inside(measure, measure.points + displacement, budget))
    change = after.value - before.value
    return float(budget.norm(change, measure)) / budget.radius, after, change


def climbed(before: LayerJacobian, start: Tensor, budget: Wasserstein, steps: int) -> float:
    """The largest gain on the way from a displacement in the direction of its gradient, and so on."""
    measure, best, displacement = before.measure, 0.0, start
    for step in range(steps + 1):
        gain, after, change = observed(before, displacement, budget)
        best = max(best, gain)
        if step == steps:
            break
        gradient = after.vjp(measure.masses[:, None] * change) / measure.masses[:, None]
        displacement = gradient * (budget.radius / budget.norm(gradient, measure))
    return best


def one_length(layer: AttentionLayer, measure: TokenMeasure, options: argparse.Namespace) -> list[str]:
    start, budget = time.process_time(), Wasserstein(options.radius)
    bounds = OneToken.of(layer, measure, budget)
    strongest, reach = None, options.radius * math.sqrt(measure.length)
    for token in candidates(bounds, options.tries):
        moving = MovedToken.of(bounds.at, token)
        displacement = strongest_displacement(moving, measure.masses, reach, steps=options.search)
        points = torch.zeros_like(measure.points)
        points[token] = displacement
        gain = observed(bounds.at, points, budget)[0]
        if strongest is None or gain > strongest[0]:
            strongest = (gain, token, points)
    assert strongest is not None
    gain, token, moved = strongest
    lower, upper, everything = math.nan, math.nan, math.nan
    if options.steps:
        constant = local_lipschitz(layer, measure, seed=0, steps=options.steps)
        lower, upper = float(constant.lower), float(constant.upper)
        steep = constant.direction * (options.radius / measure.masses.sqrt()[:, None])
        everything = max(climbed(bounds.at, each, budget, options.climb) for each in (steep, moved))
    proved = [bounds.change(token) / options.radius, bounds.largest()[1] / options.radius]
    assert gain <= proved[0] <= proved[1] + 1e-9
    assert not everything > bounds.hull / options.radius
    numbers = [gain, *proved, everything, lower, upper, bounds.hull / options.radius]
    seconds, peak = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    told = [f"{measure.length}", f"{reach:.3g}", f"{token}", *(f"{number:.5g}" for number in numbers)]
    return [*told, f"{seconds:.0f}", f"{peak:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--layer", type=int, default=10)
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 2048])
    parser.add_argument("--radius", type=float, default=0.01)
    parser.add_argument("--tries", type=int, default=4)
    parser.add_argument("--climb", type=int, default=2)
    parser.add_argument("--steps", type=int, default=32, help="Lanczos steps at most; 0 leaves moving all tokens out")
    parser.add_argument("--search", type=int, default=20, help="steps of either kind for one token")
    parser.add_argument("--quick", action="store_true", help="n = 64 alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for length in [64] if options.quick else options.lengths:
        layer, measure = long_text(options.model, options.layer, length)
        rows.append(one_length(layer, measure.sample(0), options))
    print(f"{options.model}, layer {options.layer}, W2 {options.radius:g}: gains")
    print_table(NAMES, rows)


if __name__ == "__main__":
    main()

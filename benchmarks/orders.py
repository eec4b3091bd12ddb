"""What every order of a layer contributes to its change within a budget, and what is known of it.

    python -m benchmarks.orders                              # SmolLM2, layers 0, 10 and 20
    python -m benchmarks.orders --model minilm --layers 0    # another model

All numbers are changes of the output: of the first order the local constant times the radius, of order k the derivative
over k!. `attained` is what ascent finds on that order alone, a lower value; `samples` the upper value at the tokens
from Gaussian tuples; `rest` what is left if that order is bounded on the ball and the expansion ends there.
"""

from __future__ import annotations

import argparse
import math
from functools import partial

import torch

from benchmarks.measuring import print_table
from robust_attn.attention.derivatives import Derivatives
from robust_attn.attention.measure import stack
from robust_attn.bounds.ball import higher_norms
from robust_attn.budget import Wasserstein
from robust_attn.certificates.path import FINE_PATH, Part, along_path, change_along
from robust_attn.certificates.sampled_orders import Pairs, SampledOrders
from robust_attn.data.source import Prose, read_inputs
from robust_attn.models import load_model
from robust_attn.spectral.lipschitz import local_lipschitz
from robust_attn.spectral.norms import head_norms

ORDERS, ASCENTS, STEPS = (2, 3, 4, 5), 3, 30


def attained(derivatives: Derivatives, root: torch.Tensor, order: int) -> float:
    """The largest |D^k f [d, .., d]|_w / |d|_w^k that gradients find from random starts."""
    best = 0.0
    for seed in range(ASCENTS):
        draw = torch.Generator().manual_seed(seed)
        along = torch.randn(1, *derivatives.measure.points.shape, generator=draw, dtype=torch.float64)
        for _ in range(STEPS):
            along = (along / along.norm()).requires_grad_(True)
            size = (derivatives.along(*[along / root] * order).value * root).norm()
            (along,) = torch.autograd.grad(size, along)
            best = max(best, float(size.detach()))
    return best


def rest(sizes: list[float], order: int) -> float:
    """What Taylor's remainder of that order comes to, its derivative known on the parts of the path."""
    nothing = (math.inf,) * (order - 1)
    parts = [Part(end, (*nothing, size / end**order)) for end, size in zip(FINE_PATH, sizes, strict=True)]
    return change_along(parts, [0.0] * (order - 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--layers", type=int, nargs="+", default=[0, 10, 20])
    parser.add_argument("--radius", type=float, default=0.01, help="Wasserstein")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model, budget = load_model(options.model, dtype=torch.float64), Wasserstein(options.radius)
    draw = torch.Generator().manual_seed(0)
    read = partial(read_inputs, Prose(), model, layers=tuple(options.layers), tokens=32, samples=1, generator=draw)
    rows = []
    for index, inputs in sorted(read().measures.items()):
        layer, measure = model.layer(index), stack([inputs.sample(0)]).to(torch.float64)
        weights, norms = budget.weights(measure), head_norms(layer, positions=measure.positions)
        first = options.radius * float(local_lipschitz(layer, measure, weights=weights, seed=0).lower)
        rows.append([str(index), "1", f"{first:.4g}", "", ""])
        derivatives, root = Derivatives.at(layer, measure.sample(0)), weights[0].sqrt()[:, None]
        uppers = SampledOrders(layer, measure, weights, Pairs(), 0).up_to_fifth(0)
        balls = higher_norms(layer, norms, measure, along_path(budget, FINE_PATH), (3, 4, 5, 6))
        left = {order: rest([float(sizes[order - 3]) for sizes in balls], order) for order in (3, 4, 5, 6)}
        for order, upper in zip(ORDERS, uppers, strict=True):
            scale = options.radius**order / math.factorial(order)
            seen = scale * attained(derivatives, root, order)
            after = f"{left[order]:.4g}" if order in left else ""
            rows.append([str(index), str(order), f"{seen:.4g}", f"{scale * upper:.4g}", after])
        rows.append([str(index), "6", "", "", f"{left[6]:.4g}"])
    print_table(["layer", "order", "attained", "samples", "rest"], rows)


if __name__ == "__main__":
    main()

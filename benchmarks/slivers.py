"""How much stronger than moving a sliver is: a small mass sent far, in exact W2 on both sides.

    python -m benchmarks.slivers                      # every layer of MiniLM and six of SmolLM2, 32 tokens, three radii
    python -m benchmarks.slivers --masses             # MiniLM layer 3 and SmolLM2 layer 10: gain against the least mass
    python -m benchmarks.slivers --quick              # MiniLM layer 3 alone, radius 0.01

`move` and `sliver` are W2 of the outputs over W2 of the inputs (POT's exact solver), `stronger` their ratio; `mass` is
what the sliver weighs and `context` 1 / mass: of how many tokens one must be controlled by whoever sends it. `hull` is
the bound on any measure at that distance, over the radius; `reached` how much of it the sliver attains. Atoms stay
within the largest token norm, for both attacks.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import torch

import robust_attn as ra
from benchmarks.measuring import print_table
from robust_attn.attacks.mass_split import Masses, MassSplit
from robust_attn.attacks.move import Move
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import TokenRadius, Wasserstein
from robust_attn.certificates.measures import certify_measures
from robust_attn.data.source import Prose, read_inputs

LAYERS = {"minilm": (0, 1, 2, 3, 4, 5), "smollm2": (0, 5, 10, 15, 20, 29)}
ONE_EACH = {"minilm": (3,), "smollm2": (10,)}
RADII = (1e-3, 1e-2, 0.1)
MASSES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10)
HEADER = ["layer", "radius", "least mass", "move", "sliver", "stronger", "mass", "context", "hull", "reached"]


def cases(layers: dict[str, tuple[int, ...]], tokens: int) -> Iterator[tuple[str, AttentionLayer, TokenMeasure]]:
    for name, indices in layers.items():
        model = ra.load_model(name, weights="pretrained")
        generator = torch.Generator().manual_seed(0)
        inputs = read_inputs(Prose(), model, layers=indices, tokens=tokens, samples=1, generator=generator).measures
        for index in indices:
            yield f"{name} {index}", model.layer(index), inputs[index]


def moved_gain(layer: AttentionLayer, measure: TokenMeasure, budget: Wasserstein) -> float:
    return float(Move()(layer, measure, budget, generator=torch.Generator().manual_seed(0)).observation.w2_gain[0])


def compared(
    layer: AttentionLayer, measure: TokenMeasure, budget: Wasserstein, moving: float, lightest: float
) -> list[str]:
    attack = MassSplit(masses=Masses.SLIVER, context=1 / lightest)
    seen = attack(layer, measure, budget, generator=torch.Generator().manual_seed(0)).observation
    gain, mass = float(seen.w2_gain[0]), float(seen.base.masses[0, -1])
    bounds = {bound.name: bound for bound in certify_measures(layer, measure, budget).bounds}
    hull = bounds["split.hull"].output_change / budget.radius
    numbers = (moving, gain, gain / moving, mass, 1 / mass, hull, gain / hull)
    return [f"{lightest:g}", *(f"{number:.4g}" for number in numbers)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--masses", action="store_true", help="gain against the least mass, one layer of each model")
    parser.add_argument("--quick", action="store_true", help="MiniLM layer 3 alone at radius 0.01")
    parser.add_argument("--tokens", type=int, default=32)
    options = parser.parse_args()
    torch.set_num_threads(1)
    layers = {"minilm": (3,)} if options.quick else (ONE_EACH if options.masses else LAYERS)
    rows = []
    for name, layer, measure in cases(layers, options.tokens):
        for radius in (1e-2,) if options.quick or options.masses else RADII:
            budget = Wasserstein(radius, support=TokenRadius())
            moving = moved_gain(layer, measure, budget)
            for lightest in MASSES if options.masses else MASSES[-1:]:
                rows.append([name, f"{radius:g}", *compared(layer, measure, budget, moving, lightest)])
                print("  ".join(rows[-1]), flush=True)
    print()
    print_table(HEADER, rows)


if __name__ == "__main__":
    main()

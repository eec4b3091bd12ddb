"""Global bounds on B_R^n: the best certified one against the paper's, and how much of it the worst tokens found reach.

    python -m benchmarks.global_bounds            # every layer of four models, then searches at small n and d
    python -m benchmarks.global_bounds --quick    # MiniLM and a few searches

R is the radius that no input of the layer leaves where a normalisation stands in front of it, else that of the tokens.
Targets: best at least 2.5 times below the paper's bound on every layer; in the searches at least half of it is reached.
The searches are `WorstCaseSearch` (ascent on the largest singular value) over tokens of the unit ball of R^3, from the
configurations of the lower bounds and from random starts, for several A of the same norm; one head, no biases.
"""

from __future__ import annotations

import argparse

import torch

import robust_attn as ra
from benchmarks.measuring import print_table
from robust_attn.attacks.worst_case import WorstCaseSearch
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.bounds import sharp
from robust_attn.pipeline.balls import ball_bounds

MODELS = (("minilm", "pretrained"), ("smollm2", "pretrained"), ("bert", "random"), ("gpt2", "random"))
TOKENS = 64


def best_and_paper(layer: AttentionLayer, radius: float, tokens: int) -> tuple[str, float, float]:
    """Name and log10 of the smallest certified constant, and log10 of the paper's smallest."""
    measure = TokenMeasure.uniform(torch.zeros(tokens, layer.width, dtype=torch.float64))
    bounds = [bound for bound in ball_bounds(layer, measure, radius) if bound.certifies]
    best = min(bounds, key=lambda bound: bound.log10)
    papers = min(bound.log10 for bound in bounds if bound.name.startswith("paper."))
    return best.name, best.log10, papers


def layer_rows(name: str, weights: str, layers: int | None) -> list[list[str]]:
    model = ra.load_model(name, weights=weights)
    rows = []
    for index in range(model.layers)[:layers]:
        layer = model.layer(index)
        radius = layer.input_radius or 15.0
        bound, best, papers = best_and_paper(layer, radius, TOKENS)
        rows.append(
            [name, str(index), f"{radius:.1f}", bound, f"{best:.2f}", f"{papers:.2f}", f"{10 ** (papers - best):.2f}"]
        )
    return rows


def steepest(A: torch.Tensor, length: int, *, steps: int) -> float:
    """The largest local constant found in the unit ball, V = I."""
    layer = AttentionLayer.single_head(A, torch.eye(len(A), dtype=torch.float64))
    starts = [sharp.one_key_tokens(A, radius=1.0, length=length)]
    if length > 2:
        keys = sharp.two_keys(A, torch.eye(len(A), dtype=torch.float64), radius=1.0, length=length)
        starts.append(keys.tokens(radius=1.0, length=length))
    search = WorstCaseSearch(1.0, steps, 3)
    return search(layer, length, generator=torch.Generator().manual_seed(0), starts=tuple(starts)).constant


def search_row(size: float, length: int, *, steps: int) -> list[str]:
    """The bounds know A by its norm alone, so the search goes over matrices of that norm too."""
    found = {label: steepest(size * A, length, steps=steps) for label, A in matrices().items()}
    label = max(found, key=lambda name: found[name])
    layer = AttentionLayer.single_head(size * matrices()[label], torch.eye(3, dtype=torch.float64))
    name, best, papers = best_and_paper(layer, 1.0, length)
    shares = [found[label] / 10**best, found[label] / 10**papers]
    values = [f"{found[label]:.3f}", label, name, f"{10**best:.3f}"]
    return [str(size), str(length), *values, *(f"{share:.2f}" for share in shares)]


def matrices() -> dict[str, torch.Tensor]:
    """Matrices of norm one: minus the identity, a rotation, a nilpotent one, and random ones."""
    turn = torch.tensor([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]], dtype=torch.float64)
    shift = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    found = {"-I": -torch.eye(3, dtype=torch.float64), "rotation": turn, "shift": shift}
    g = torch.Generator().manual_seed(0)
    for index in range(3):
        matrix = torch.randn(3, 3, generator=g, dtype=torch.float64)
        found[f"random {index}"] = matrix / torch.linalg.matrix_norm(matrix, 2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="MiniLM, two searches")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = [row for name, weights in MODELS[: 1 if options.quick else None] for row in layer_rows(name, weights, None)]
    header = ["model", "layer", "R", "best", "log10 best", "log10 paper", "paper / best"]
    print_table(header, rows)
    ratios = [float(row[-1]) for row in rows]
    print(f"paper / best over {len(rows)} layers, {TOKENS} tokens: at least {min(ratios)}, at most {max(ratios)}")
    sizes, lengths = ((1.0,), (4,)) if options.quick else ((0.1, 0.3, 1.0, 3.0, 8.0), (2, 4, 8))
    found = [search_row(size, n, steps=20 if options.quick else 60) for size in sizes for n in lengths]
    header = ["|A| R^2", "n", "found", "at A", "best bound", "value", "found / best", "found / paper"]
    print_table(header, found)
    shares = [float(row[-2]) for row in found]
    print(
        f"found / best: {min(shares)} to {max(shares)}; {sum(s >= 0.5 for s in shares)} of {len(shares)} at least half"
    )


if __name__ == "__main__":
    main()

"""Every pretrained model that is available without the hub, layer by layer: constant, certified radius, gains.

    python -m benchmarks.results            # all of them: the tables of docs/results.md
    python -m benchmarks.results minilm vit # these alone
    python -m benchmarks.results smollm2 --every 10   # layers 0, 10 and 20
    python -m benchmarks.results --quick    # the first layer of MiniLM

Two samples of 32 tokens (images have as many as the model makes of them), in the Wasserstein norm: changes are root
mean squares over tokens. Attacks and the certified gain, certified output change over budget radius, are at radius
0.01; splitting writes every token as two equal copies, of which that certificate says nothing. A row has the worse of
the two samples in every column.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import torch

import robust_attn as ra
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.data.settings import Digits, Prose
from robust_attn.data.source import read_inputs
from robust_attn.models.model import AttentionModel

MODELS = ("minilm", "injection", "smollm2", "vit")
EVERY = {"smollm2": 3}
TOKENS, SAMPLES, RADIUS, TOLERANCE = 32, 2, 0.01, 0.1
HEADER = (
    "layer",
    "token norm",
    "local constant, lower",
    "upper",
    f"certified radius at tolerance {TOLERANCE:g}",
    "gain by moving",
    "gain by splitting",
    "certified gain, moving",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=f"of {', '.join(MODELS)}; all unless named")
    parser.add_argument("--every", type=int, help="every so many layers; all, of SmolLM2 every third, unless given")
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    for name in MODELS[:1] if asked.quick else asked.models or MODELS:
        model = ra.load_model(name)
        layers = [0] if asked.quick else range(0, model.layers, asked.every or EVERY.get(name, 1))
        print(f"**{name}** ({model.origin.label}), {model.layers} layers\n")
        print_markdown(HEADER, rows(model, list(layers)))
        print(flush=True)


def rows(model: AttentionModel, layers: Sequence[int]) -> Iterator[list[str]]:
    """A row for every layer."""
    source = Digits() if model.takes_images else Prose()
    generator = torch.Generator().manual_seed(0)
    read = read_inputs(source, model, layers=layers, tokens=TOKENS, samples=SAMPLES, generator=generator)
    for index in layers:
        yield [str(index), *(f"{number:.3g}" for number in numbers(model.layer(index), read.measures[index]))]


def numbers(layer: AttentionLayer, measure: TokenMeasure) -> Iterator[float]:
    """What a row says, in the order of the header."""
    budget = ra.Wasserstein(RADIUS)
    samples = [measure.sample(place) for place in range(SAMPLES)]
    constant = ra.local_lipschitz(layer, measure, seed=0)
    yield float(measure.points.norm(dim=-1).mean())
    yield float(constant.lower.max())
    yield float(constant.upper.max())
    yield min(ra.certified_radius(layer, each, ra.Wasserstein, TOLERANCE, seed=0).radius for each in samples)
    for attack in (ra.Move(), ra.MassSplit(copies=2, masses=ra.Masses.EQUAL)):
        seen = attack(layer, measure, budget, generator=torch.Generator().manual_seed(0)).observation
        yield float(seen.gain.max())
    yield max(ra.certify(layer, each, budget, seed=0).output_change for each in samples) / RADIUS


def print_markdown(header: Sequence[str], rows: Iterator[Sequence[str]]) -> None:
    """A table of Markdown, each row as soon as it is known."""
    for row in (header, ["---"] * len(header)):
        print(f"| {' | '.join(row)} |")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()

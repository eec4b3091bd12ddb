"""The depth law: certified and flip radii of predictions by the first 1, 2, ... layers of a model.

    python -m benchmarks.prediction_depth --texts 2 --plot docs/figures/prediction_depth.png
    python -m benchmarks.prediction_depth --model smollm2 --tokens 4 --depths 1 2 4 8 --texts 1

The injection encoder: for each depth a linear head is fitted on the mean of the tokens' states after that many layers,
over the 64 labelled rows of examples/injection_rows.csv (logistic regression, ridge 1e-3 on states divided by their
root mean square, L-BFGS to the end; the size of a head changes neither radius). SmolLM2: its own last norm and
vocabulary read the state of the last token after that many layers. Texts are those of benchmarks.prediction_radius,
cut. CPU seconds of one thread; flip radii are upper values of the true ones. `last`: its largest step.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.measuring import print_table
from benchmarks.prediction_radius import TEXTS, flip_radius, gigabytes, margin_of
from robust_attn.models import load_model
from robust_attn.predictions.certificate import Effort, PredictionCertificate, certified_prediction
from robust_attn.predictions.steps import Network, Weights
from robust_attn.through.classifier import classifier_of
from robust_attn.through.network import network_of

ROWS = Path(__file__).parents[1] / "examples" / "injection_rows.csv"
RIDGE = 1e-3
SPREAD = (0, 4, 1, 5, 2, 6, 3, 7)
"""Texts of both labels by turns."""
ORDERS = frozenset(("first", "second", "third", "fourth"))


@dataclass(frozen=True, eq=False)
class Fitted:
    """A head, and the share of the rows that it classifies as they are labelled."""

    head: Weights
    accuracy: float


def rows() -> list[tuple[str, int]]:
    """Texts and labels."""
    with ROWS.open(encoding="utf-8", newline="") as file:
        return [(row["text"], int(row["label"])) for row in csv.DictReader(file)]


def mean_states(model: Any, reader: Any, tokens: int) -> tuple[list[Tensor], Tensor]:
    """For every depth the mean states of all rows [rows, d], and the labels."""
    states, labels = [], []
    for text, label in rows():
        ids = reader.framed(torch.tensor([model.encode(text)[:tokens]]))
        with torch.no_grad():
            hidden = model.module(ids, output_hidden_states=True).hidden_states
        states.append(torch.stack([each[0].double().mean(0) for each in hidden]))
        labels.append(label)
    return list(torch.stack(states, 1)), torch.tensor(labels)


def fitted(states: Tensor, labels: Tensor) -> Fitted:
    """Logistic regression with a ridge, to the end."""
    scale = float(states.square().mean().sqrt())
    inputs = states / scale
    weight = torch.zeros(2, states.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    search = torch.optim.LBFGS([weight, bias], max_iter=2000, line_search_fn="strong_wolfe", tolerance_grad=1e-9)

    def loss() -> Tensor:
        search.zero_grad()
        value = torch.nn.functional.cross_entropy(inputs @ weight.T + bias, labels) + RIDGE * weight.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    search.step(loss)  # type: ignore[arg-type]
    right = (inputs @ weight.T + bias).argmax(-1) == labels
    return Fitted(Weights((weight / scale).detach(), bias.detach()), float(right.double().mean()))


def cut_networks(name: str, texts: int, tokens: int, depths: list[int]) -> Iterator[tuple[int, Network, Tensor]]:
    """Each text at each depth: the network of so many layers with a head for that depth, and the input."""
    model = load_model(name, "auto")
    reader: Any = classifier_of(model)
    heads: Mapping[int, Fitted] = {}
    if name == "injection":
        states, labels = mean_states(model, reader, tokens)
        heads = {depth: fitted(states[depth], labels) for depth in depths}
        told = ", ".join(f"{depth}: {each.accuracy:.3f}" for depth, each in heads.items())
        print(f"heads fitted on {len(labels)} rows; share of them classified as labelled, by depth: {told}", flush=True)
    for place in SPREAD[:texts]:
        ids = reader.framed(torch.tensor([model.encode(TEXTS[place])[:tokens]]))
        points = reader.measure(ids).points[0]
        whole = network_of(reader, points)
        for depth in depths:
            cut = replace(whole, blocks=whole.blocks[:depth])
            yield depth, replace(cut, head=(heads[depth].head,)) if depth in heads else cut, points


def measured(depth: int, network: Network, points: Tensor, seed: int, effort: Effort) -> dict[str, Any]:
    """One row of the table."""
    begin = time.process_time()
    found = certified_prediction(network, points, seed=seed, effort=effort)
    seconds = time.process_time() - begin
    flip = flip_radius(margin_of(network, points), points, torch.ones_like(points))
    return {
        "depth": depth,
        "tokens": len(points),
        "margin": found.margin,
        "certified": found.radius,
        "flip": flip,
        "last": last_step(found),
        "cpu_seconds": seconds,
        "gigabytes": float(gigabytes()),
    }


def last_step(found: PredictionCertificate) -> str:
    """The step whose remainders take most off the margin; none without a certificate."""
    steps = {name: share for name, share in found.shares.items() if name not in ORDERS}
    return max(steps, key=lambda name: steps[name]) if steps else "none"


def drawn(found: list[dict[str, Any]], file: Path) -> None:
    """Certified and flip radius against depth, one line per text."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    series: list[tuple[str, str, Callable[[dict[str, Any]], float | None]]] = [
        ("flip found by attack", "#c2410c", lambda row: row["flip"]),
        ("certified", "#1d4ed8", lambda row: row["certified"] or None),
    ]
    for name, colour, value in series:
        for text in sorted({row["text"] for row in found}):
            of_text = [row for row in found if row["text"] == text and value(row) is not None]
            label = name if text == 0 else None
            axes.plot(
                [row["depth"] for row in of_text], [value(row) for row in of_text], "o-", color=colour, label=label
            )
    axes.set(yscale="log", xlabel="layers", ylabel="radius (Frobenius, all tokens)", title="Radii against depth")
    axes.set_xticks(sorted({row["depth"] for row in found}))
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend()
    figure.savefig(file, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=("injection", "smollm2"), default="injection")
    parser.add_argument("--texts", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=14, help="typed tokens; two more begin and end a text of BERT")
    parser.add_argument("--depths", type=int, nargs="+", default=[1, 2, 3, 4, 5, 6])
    parser.add_argument("--samples", type=int, default=None, help="in one list; by the size of the model if not given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, default=None)
    parser.add_argument("--save", type=Path, default=None, help="the table as lines of JSON, written as it grows")
    options = parser.parse_args()
    found: list[dict[str, Any]] = []
    start = 0.1
    for depth, network, points in cut_networks(options.model, options.texts, options.tokens, options.depths):
        start = 0.1 if depth == options.depths[0] else start
        row = measured(depth, network, points, options.seed, Effort(samples=options.samples, start=start))
        start = row["certified"] / 2 or start / 8
        found.append({"text": len(found) // len(options.depths), **row})
        print(found[-1], flush=True)
        if options.save is not None:
            options.save.write_text("".join(json.dumps(each) + "\n" for each in found), encoding="utf-8")
    print_table(
        ["text", "layers", "n", "margin", "certified", "flip", "%", "last", "CPU s", "GB"], [line(row) for row in found]
    )
    if options.plot is not None:
        drawn(found, options.plot)


def line(row: Mapping[str, Any]) -> list[str]:
    """As the table shows it."""
    flip = row["flip"]
    return [
        str(row["text"]),
        str(row["depth"]),
        str(row["tokens"]),
        f"{row['margin']:.2f}",
        f"{row['certified']:.3g}",
        "-" if flip is None else f"{flip:.3f}",
        "-" if flip is None else f"{100 * row['certified'] / flip:.2f}",
        row["last"],
        f"{row['cpu_seconds']:.0f}",
        f"{row['gigabytes']:.1f}",
    ]


if __name__ == "__main__":
    main()

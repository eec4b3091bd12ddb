"""From few tokens to infinitely many: the discrete, mean-field and unified bounds, and what is attained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.bounds import paper
from robust_attn.experiments.study import (
    Configuration,
    Matrix,
    Record,
    Study,
    ball_record,
    chosen,
    single_head,
    upper_bounds,
)
from robust_attn.pipeline import ball_bounds, ball_verdict
from robust_attn.record import Subject, heading
from robust_attn.spectral.lipschitz import split_lipschitz
from robust_attn.views.panel import Panel, bound_lines, line

MASSES = 400
"""Masses of the special token that are tried, evenly spaced in the logarithm between 1/n and 1/2."""


@final
@dataclass(frozen=True)
class MeanField(Study):
    """The paper's configuration with n tokens up to `lengths`, and as two weighted atoms for the longer `beyond`.

    With n - 1 tokens in one place the n tokens are two atoms of masses 1/n and 1 - 1/n, split: exact for any n
    (docs/proofs/splitting.md#copies), but that here the special token may split too. `best_mass` also chooses how many
    tokens are special.
    """

    A: Matrix
    radius: float
    lengths: Sequence[int]
    beyond: Sequence[int]
    name: ClassVar[str] = "mean_field"

    def records(self, *, seed: int) -> Iterator[dict[str, Any]]:  # noqa: ARG002
        """Per length: one special token (all n tokens written out where that fits), then the best mass of it."""
        layer = single_head(self.A)
        for length in self.lengths:
            upper = upper_bounds(layer, radius=self.radius, length=length)
            points = paper.adversarial_tokens(self._matrix, radius=self.radius, length=length)
            yield ball_record(self.name, layer, Configuration("one_token", points), radius=self.radius, upper=upper)
            yield self._weighted(layer, length, "best_mass")
        for length in self.beyond:
            yield self._weighted(layer, length, "one_token")
            yield self._weighted(layer, length, "best_mass")

    @property
    def _matrix(self) -> Float[Tensor, "d d"]:
        return torch.tensor(self.A, dtype=torch.float64)

    def _weighted(self, layer: AttentionLayer, length: int, name: str) -> dict[str, Any]:
        pair = paper.adversarial_tokens(self._matrix, radius=self.radius, length=2)
        smallest = torch.tensor([1 / length], dtype=torch.float64)
        masses = smallest if name == "one_token" else _masses(length)
        constants = two_atom_constants(layer, pair, masses)
        best = int(constants.argmax())
        atoms = torch.stack([smallest[0], 1 - smallest[0]])
        bounds = ball_bounds(layer, TokenMeasure.weighted(pair, atoms), self.radius)
        return {
            **heading(Subject("single_head", "given", 0), 0, length),
            "task": self.name,
            "configuration": name,
            "mask": str(layer.mask),
            "radius": self.radius,
            "special_mass": float(masses[best]),
            **ball_verdict(float(constants[best]), bounds),
        }

    def findings(self, records: Sequence[Record]) -> dict[str, Any]:
        """The largest constant found at any length, beside the mean-field bound and the unified one."""
        top = max(records, key=lambda record: record["lipschitz"]["lower"])
        bounds = {bound["name"]: bound["log10"] for bound in top["bounds"] if bound["applies"]}
        return {
            "attained": top["lipschitz"]["lower"],
            "special_mass": top.get("special_mass"),
            "tokens": top["tokens"],
            "bounds": {name: 10**log10 for name, log10 in bounds.items() if log10 is not None and log10 < 300},
        }

    def panels(self, records: Sequence[Record]) -> tuple[Panel, ...]:
        """Attained constants and bounds against n."""
        lines: dict[str, Any] = {
            name: line((r["tokens"], r["lipschitz"]["lower"]) for r in chosen(records, configuration=name))
            for name in ("one_token", "best_mass")
        }
        bounds = bound_lines(chosen(records, configuration="one_token"), "tokens")
        title = f"Few tokens to many, |A| R² = {float(torch.linalg.matrix_norm(self._matrix, 2)) * self.radius**2:g}"
        return (Panel("mean_field", title, "tokens", "Lipschitz constant", lines | bounds, frozenset(bounds)),)


def two_atom_constants(
    layer: AttentionLayer,
    pair: Float[Tensor, "2 d"],
    masses: Float[Tensor, "m"],
) -> Float[Tensor, "m"]:
    """The constants of the measures t delta_{x_1} + (1 - t) delta_{x_2}, atoms split, one for every t in `masses`."""
    weights = torch.stack([masses, 1 - masses], dim=-1)
    measure = TokenMeasure.weighted(pair.expand(len(masses), *pair.shape), weights)
    return split_lipschitz(layer, measure, steps=pair.numel()).lower


def _masses(length: int) -> Float[Tensor, "m"]:
    """Whole numbers of tokens over `length`, spread evenly in the logarithm from one token to half of them."""
    counts = torch.logspace(0, torch.tensor(length / 2).log10().item(), MASSES, dtype=torch.float64).round().unique()
    return counts.clamp(1, max(1, length // 2)) / length

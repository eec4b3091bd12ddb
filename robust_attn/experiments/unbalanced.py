"""Which measures are steepest: a search over the places and the masses of a few atoms in a ball."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.operator import ScaledJacobian
from robust_attn.experiments.panel import Panel, bound_lines, line
from robust_attn.experiments.study import Matrix, Record, Study, chosen, single_head
from robust_attn.pipeline import ball_bounds, ball_verdict, generator_for
from robust_attn.record import Subject, heading
from robust_attn.spectral.lipschitz import QueryPart

LEARNING_RATE = 0.05
LIGHTEST = 12.0
"""Starts have masses down to e^{-12} of the heaviest."""


@dataclass(frozen=True, eq=False)
class WorstMeasure:
    """The steepest measure found and its constant, with its atoms free to split."""

    measure: TokenMeasure
    constant: float


@final
@dataclass(frozen=True)
class Unbalanced(Study):
    """For every number of atoms and every radius: the best free masses, and the best with equal masses."""

    A: Matrix
    atoms: Sequence[int]
    radii: Sequence[float]
    steps: int
    restarts: int
    name: ClassVar[str] = "unbalanced"

    def records(self, *, seed: int) -> Iterator[dict[str, Any]]:
        """One record per radius, number of atoms, and kind of masses."""
        layer = single_head(self.A)
        for radius in self.radii:
            for atoms in self.atoms:
                for free in (True, False):
                    generator = generator_for(seed, self.name, radius, atoms, free)
                    worst = worst_measure(
                        layer, atoms, radius, free=free, steps=self.steps, restarts=self.restarts, generator=generator
                    )
                    yield self._record(layer, worst, radius, free)

    def _record(self, layer: AttentionLayer, worst: WorstMeasure, radius: float, free: bool) -> dict[str, Any]:
        order = worst.measure.masses.argsort(descending=True)
        return {
            **heading(Subject("single_head", "given", 0), 0, worst.measure.length),
            "task": self.name,
            "configuration": "free masses" if free else "equal masses",
            "mask": str(layer.mask),
            "radius": radius,
            "masses": worst.measure.masses[order].tolist(),
            "points": worst.measure.points[order].tolist(),
            **ball_verdict(worst.constant, ball_bounds(layer, worst.measure, radius)),
        }

    def findings(self, records: Sequence[Record]) -> dict[str, Any]:
        """Per radius and kind of masses the steepest measure over all numbers of atoms."""
        found = []
        for radius in self.radii:
            for kind in ("free masses", "equal masses"):
                some = chosen(records, radius=radius, configuration=kind)
                if some:
                    top = max(some, key=lambda record: record["lipschitz"]["lower"])
                    names = ("radius", "configuration", "tokens", "masses", "points", "tightness")
                    found.append({name: top[name] for name in names} | {"constant": top["lipschitz"]["lower"]})
        return {"steepest": found}

    def panels(self, records: Sequence[Record]) -> tuple[Panel, ...]:
        """The best constant against R, for free masses and for equal ones with each number of atoms, and bounds."""
        lines: dict[str, Any] = {}
        for kind in ("free masses", "equal masses"):
            for atoms in self.atoms:
                some = chosen(records, configuration=kind, tokens=atoms)
                lines[f"{atoms} atoms, {kind}"] = line((r["radius"], r["lipschitz"]["lower"]) for r in some)
        bounds = bound_lines(chosen(records, configuration="free masses", tokens=self.atoms[0]), "radius")
        title = "Steepest measures found in the ball of radius R"
        return (Panel("unbalanced", title, "R", "Lipschitz constant", lines | bounds, frozenset(bounds)),)


def worst_measure(
    layer: AttentionLayer,
    atoms: int,
    radius: float,
    *,
    free: bool,
    steps: int,
    restarts: int,
    generator: torch.Generator,
) -> WorstMeasure:
    """Adam on the log of the constant over points of the ball and, if `free`, log masses; all restarts at once."""
    shape = (restarts, atoms, layer.width)
    raw = torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_(True)
    spread = LIGHTEST * torch.rand(shape[:-1], generator=generator, dtype=torch.float64)
    logits = (-spread * free).requires_grad_(free)
    optimizer = torch.optim.Adam([raw, logits] if free else [raw], lr=LEARNING_RATE)
    best, top = None, torch.tensor(-1.0, dtype=torch.float64)
    for _ in range(steps + 1):
        measure = TokenMeasure.weighted(
            radius * raw / raw.norm(dim=-1, keepdim=True).clamp_min(1.0), logits.softmax(-1)
        )
        constants = split_constants(layer, measure)
        index = int(constants.detach().argmax())
        if best is None or constants[index].detach() > top:
            top = constants[index].detach()
            best = measure.with_points(measure.points.detach()).sample(index)
        optimizer.zero_grad()
        (-constants.clamp_min(1e-30).log().sum()).backward()
        optimizer.step()
    assert best is not None
    masses = best.masses.detach()
    return WorstMeasure(TokenMeasure.weighted(best.points, masses / masses.sum()), float(top))


def split_constants(layer: AttentionLayer, measure: TokenMeasure) -> Float[Tensor, "samples"]:
    """max(|M^{1/2} D M^{-1/2}|, max_i |V C_i A|) of small measures by dense SVD, differentiable (theory sheet, 4.1)."""
    jacobian = layer.linearize(measure)
    whole, query = (
        torch.linalg.matrix_norm(_dense(part, measure), 2)
        for part in (ScaledJacobian(jacobian, measure.masses), QueryPart(jacobian))
    )
    return torch.maximum(whole, query)


def _dense(part: ScaledJacobian | QueryPart, measure: TokenMeasure) -> Float[Tensor, "samples rows columns"]:
    """The matrix, one column per unit tangent."""
    samples, n, d = measure.points.shape
    units = torch.eye(n * d, dtype=measure.points.dtype).reshape(n * d, n, d)
    return torch.stack([part.jvp(unit.expand(samples, n, d)).flatten(1) for unit in units], dim=-1)

"""Which measures are steepest: a search over the places and the masses of a few atoms in a ball."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

from robust_attn.attacks.worst_case import WorstCase, WorstCaseSearch
from robust_attn.attention.layer import AttentionLayer
from robust_attn.experiments.study import Matrix, Record, Study, chosen, single_head
from robust_attn.pipeline import ball_bounds, ball_verdict, generator_for
from robust_attn.record import Subject, heading
from robust_attn.views.panel import Panel, bound_lines, line


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
                    search = WorstCaseSearch(radius, self.steps, self.restarts, masses=free, splitting=True)
                    yield self._record(layer, search(layer, atoms, generator=generator), radius, free)

    def _record(self, layer: AttentionLayer, worst: WorstCase, radius: float, free: bool) -> dict[str, Any]:
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

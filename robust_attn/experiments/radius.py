"""The largest constant on a ball against its radius: what is attained, between lower and upper bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

from robust_attn.attacks.worst_case import WorstCaseSearch
from robust_attn.experiments.study import (
    Configuration,
    Matrix,
    Record,
    Study,
    ball_record,
    chosen,
    lower_configurations,
    single_head,
    upper_bounds,
)
from robust_attn.pipeline import generator_for
from robust_attn.views.panel import Panel, bound_lines, line


@final
@dataclass(frozen=True)
class Radius(Study):
    """For every radius the three configurations, and the best that ascent finds from them and from random starts."""

    A: Matrix
    radii: Sequence[float]
    tokens: int
    steps: int
    restarts: int
    name: ClassVar[str] = "radius"

    def records(self, *, seed: int) -> Iterator[dict[str, Any]]:
        """One record per radius and configuration, the search last."""
        layer = single_head(self.A)
        for radius in self.radii:
            upper = upper_bounds(layer, radius=radius, length=self.tokens)
            known = lower_configurations(self.A, radius=radius, length=self.tokens)
            search = WorstCaseSearch(radius, self.steps, self.restarts)
            starts = tuple(configuration.points for configuration in known)
            found = search(layer, self.tokens, generator=generator_for(seed, self.name, radius), starts=starts)
            for configuration in (*known, Configuration("search", found.points)):
                yield ball_record(self.name, layer, configuration, radius=radius, upper=upper)

    def findings(self, records: Sequence[Record]) -> dict[str, Any]:
        """How much of the best upper bound, and of the paper's, the search reaches at each radius."""
        return {
            "reached": [
                {
                    "radius": record["radius"],
                    "constant": record["lipschitz"]["lower"],
                    "of_smallest_bound": record["tightness"],
                    "of_paper_discrete": record["lipschitz"]["lower"] / 10 ** record["bounds"][0]["log10"],
                }
                for record in chosen(records, configuration="search")
            ]
        }

    def panels(self, records: Sequence[Record]) -> tuple[Panel, ...]:
        """Attained constants and bounds against R."""
        names = dict.fromkeys(record["configuration"] for record in records)
        lines: dict[str, Any] = {
            name: line((r["radius"], r["lipschitz"]["lower"]) for r in chosen(records, configuration=name))
            for name in names
        }
        bounds = bound_lines(records, "radius")
        title = f"Constant on the ball of radius R, n = {self.tokens}"
        return (Panel("radius", title, "R", "Lipschitz constant", lines | bounds, frozenset(bounds)),)

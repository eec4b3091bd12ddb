"""The largest constant on a ball against its radius: what is attained, between lower and upper bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from robust_attn.records.entry import Json
from robust_attn.records.kinds import Record, StudyRecord
from robust_attn.settings import setting
from robust_attn.tasks.study import SQUARE, HeadStudy, Matrix, bound_lines, constants, study_records
from robust_attn.views.panel import Panel


@final
@dataclass(frozen=True)
class RadiusTask(HeadStudy):
    """The largest constant of one head with V = I on a ball against its radius."""

    A: Matrix = setting([[-1.0, 0.6], [0.0, 0.5]], "the matrix of the head", form=SQUARE)
    radii: tuple[float, ...] = setting([0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0], "radii of the ball", above=0)
    tokens: int = setting(32, "number of tokens", least=3)
    steps: int = setting(60, "steps of the search", least=0)
    restarts: int = setting(2, "random starts of the search", least=0)
    name: ClassVar[str] = "radius"
    kinds: ClassVar[tuple[str, ...]] = ("study",)

    def measured(self, *, seed: int) -> Iterator[Record]:
        """One record per radius and configuration; the best that ascent finds from them and at random comes last."""
        from robust_attn.attacks.worst_case import WorstCaseSearch
        from robust_attn.pipeline import balls
        from robust_attn.pipeline.jobs import generator_for

        layer = balls.single_head(self.A)
        for radius in self.radii:
            upper = balls.equal_mass_bounds(layer, radius=radius, length=self.tokens)
            known = balls.lower_configurations(self.A, radius=radius, length=self.tokens)
            search = WorstCaseSearch(radius, self.steps, self.restarts)
            starts = tuple(configuration.points for configuration in known)
            found = search(layer, self.tokens, generator=generator_for(seed, self.name, radius), starts=starts)
            for configuration in (*known, balls.Configuration("search", found.points)):
                yield balls.study_record(self.name, layer, configuration, radius=radius, upper=upper)

    def findings(self, records: Sequence[Record]) -> Json | None:
        """How much of the best upper bound, and of the paper's, the search reaches at each radius."""
        return {"reached": [_reached(record) for record in study_records(records, configuration="search")]}

    def panels(self, records: Sequence[Record]) -> tuple[Panel, ...]:
        """Attained constants and bounds against R."""
        own = study_records(records)
        names = dict.fromkeys(record.configuration for record in own)
        lines = {name: constants(study_records(records, configuration=name), "radius") for name in names}
        bounds = bound_lines(own, "radius")
        title = f"Constant on the ball of radius R, n = {self.tokens}"
        return (Panel("radius", title, "R", "Lipschitz constant", lines | bounds, frozenset(bounds)),)


def _reached(record: StudyRecord) -> Json:
    constant = record.lipschitz.lower
    paper = next(bound.log10 for bound in record.bounds if bound.name == "paper.discrete")
    return {
        "radius": record.radius,
        "constant": constant,
        "of_smallest_bound": record.tightness,
        "of_paper_discrete": None if constant is None or paper is None else constant / 10**paper,
    }

"""Which measures are steepest: a search over the places and the masses of a few atoms in a ball."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from robust_attn.records.entry import Json, plain
from robust_attn.records.kinds import Record, StudyRecord
from robust_attn.settings import setting
from robust_attn.tasks.study import SQUARE, HeadStudy, Matrix, bound_lines, constants, study_records
from robust_attn.views.panel import Panel

FREE, EQUAL = "free masses", "equal masses"


@final
@dataclass(frozen=True)
class UnbalancedTask(HeadStudy):
    """The steepest measures of few atoms with free masses, for one head with V = I."""

    A: Matrix = setting([[-1.0, 0.0], [0.0, -1.0]], "the matrix of the head", form=SQUARE)
    atoms: tuple[int, ...] = setting([2, 3, 4], "numbers of atoms", least=2)
    radii: tuple[float, ...] = setting([0.5, 1.0, 1.5, 2.0, 2.5, math.sqrt(8.0)], "radii of the ball", above=0)
    steps: int = setting(150, "steps of the search", least=0)
    restarts: int = setting(16, "random starts of the search", least=0)
    name: ClassVar[str] = "unbalanced"
    kinds: ClassVar[tuple[str, ...]] = ("study",)

    def measured(self, *, seed: int) -> Iterator[Record]:
        """One record per radius, number of atoms, and kind of masses."""
        from robust_attn.attacks.worst_case import WorstCaseSearch
        from robust_attn.pipeline.balls import ball_bounds, ball_fields, single_head
        from robust_attn.pipeline.jobs import SINGLE_HEAD, generator_for

        layer = single_head(self.A)
        for radius in self.radii:
            for atoms in self.atoms:
                for free in (True, False):
                    generator = generator_for(seed, self.name, radius, atoms, free)
                    search = WorstCaseSearch(radius, self.steps, self.restarts, masses=free, splitting=True)
                    worst = search(layer, atoms, generator=generator)
                    order = worst.measure.masses.argsort(descending=True)
                    yield StudyRecord(
                        **SINGLE_HEAD.heading(0, worst.measure.length),
                        study=self.name,
                        configuration=FREE if free else EQUAL,
                        mask=str(layer.mask),
                        radius=radius,
                        masses=tuple(worst.measure.masses[order].tolist()),
                        points=tuple(map(tuple, worst.measure.points[order].tolist())),
                        **ball_fields(worst.constant, ball_bounds(layer, worst.measure, radius)),
                    )

    def findings(self, records: Sequence[Record]) -> Json | None:
        """Per radius and kind of masses the steepest measure over all numbers of atoms."""
        found = []
        for radius in self.radii:
            for kind in (FREE, EQUAL):
                some = study_records(records, radius=radius, configuration=kind)
                if some:
                    top = max(some, key=lambda record: record.lipschitz.lower or 0.0)
                    names = ("radius", "configuration", "tokens", "masses", "points", "tightness")
                    facts = {name: plain(getattr(top, name)) for name in names}
                    found.append(facts | {"constant": top.lipschitz.lower})
        return {"steepest": found}

    def panels(self, records: Sequence[Record]) -> tuple[Panel, ...]:
        """The best constant against R, for free masses and for equal ones with each number of atoms, and bounds."""
        lines = {
            f"{atoms} atoms, {kind}": constants(study_records(records, configuration=kind, tokens=atoms), "radius")
            for kind in (FREE, EQUAL)
            for atoms in self.atoms
        }
        bounds = bound_lines(study_records(records, configuration=FREE, tokens=self.atoms[0]), "radius")
        title = "Steepest measures found in the ball of radius R"
        return (Panel("unbalanced", title, "R", "Lipschitz constant", lines | bounds, frozenset(bounds)),)

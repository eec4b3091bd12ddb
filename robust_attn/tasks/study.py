"""What a study of a single head is: records from settings alone, and what they say."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from robust_attn.records.kinds import Record, StudyRecord, of_kind
from robust_attn.records.store import Run
from robust_attn.settings import setting
from robust_attn.tasks.task import Needs, Task
from robust_attn.types import FieldError
from robust_attn.views.panel import Panel, Point, line
from robust_attn.views.studies import study_view
from robust_attn.views.view import View
from robust_attn.work import Work

Matrix = tuple[tuple[float, ...], ...]
SQUARE = "a square matrix given by its rows, such as [[-1,0],[0,0.5]]"
DRAWN_DECADES = 30
"""Bounds beyond 10^30 are left to the records."""


@dataclass(frozen=True)
class Study(Task):
    """Works on one attention head given by its matrices; no model is loaded."""

    needs: ClassVar[Needs] = Needs.NOTHING

    def records(self, work: Work) -> Iterator[Record]:
        """One record per point measured."""
        work.desk.origin("given", {}, None)
        work.desk.begin(self.name)
        yield from self.measured(seed=work.settings.seed)

    @abstractmethod
    def measured(self, *, seed: int) -> Iterator[Record]:
        """One record per point measured."""

    @abstractmethod
    def panels(self, records: Sequence[Record]) -> tuple[Panel, ...]:
        """The figures, each also printed as a table."""

    def view(self, run: Run) -> View:
        """Whether bounds held, and the figures."""
        return study_view(run, self.panels(run.records) if run.records else ())


@dataclass(frozen=True)
class HeadStudy(Study):
    """A study of the head with V = I and a matrix of one's own."""

    A: Matrix = setting([[-1.0]], "the matrix of the head", form=SQUARE)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.A or any(len(row) != len(self.A) for row in self.A):
            raise FieldError("A", f"must be {SQUARE}, got {[list(row) for row in self.A]}.")


def study_records(records: Sequence[Record], **values: object) -> list[StudyRecord]:
    """The records of configurations whose fields have these values."""
    own = of_kind(records, StudyRecord)
    return [r for r in own if all(getattr(r, name) == value for name, value in values.items())]


def constants(records: Sequence[StudyRecord], x: str) -> tuple[Point, ...]:
    """The constant attained against field `x`."""
    return line((getattr(record, x), record.lipschitz.lower) for record in records)


def bound_lines(records: Sequence[StudyRecord], x: str) -> dict[str, tuple[Point, ...]]:
    """The constant of every bound that applies against field `x`."""
    names = dict.fromkeys(bound.name for record in records for bound in record.bounds if bound.applies)
    return {
        name: line(
            (getattr(record, x), 10**bound.log10)
            for record in records
            for bound in record.bounds
            if bound.name == name and bound.log10 is not None and abs(bound.log10) <= DRAWN_DECADES
        )
        for name in names
    }

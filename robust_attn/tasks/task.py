"""What a task is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from robust_attn.records.conditions import Condition, judgeable
from robust_attn.records.entry import Json
from robust_attn.records.kinds import KINDS, Record
from robust_attn.records.store import Run
from robust_attn.settings import Settings
from robust_attn.types import FieldError
from robust_attn.views.view import View
from robust_attn.work import DTYPES, Work


class Needs(StrEnum):
    """What has to be there before a task can begin."""

    NOTHING = "nothing"
    LAYERS = "the attention layers of a model"
    CLASSIFIER = "a classifier as a whole"


@dataclass(frozen=True)
class Task(Settings, ABC):
    """Makes records, and says what they amount to. `attacks` is whether it takes the attack that the settings name.

    `dtypes` are the precisions that a model may have in it, `kinds` the kinds of its records; a task that names none
    may make any.
    """

    needs: ClassVar[Needs] = Needs.LAYERS
    attacks: ClassVar[bool] = False
    dtypes: ClassVar[tuple[str, ...]] = DTYPES
    kinds: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def folder_name(cls, attack: str, model: str) -> str:
        """What a run is called: by its task and by what that really uses."""
        used = [cls.name, *([attack] if cls.attacks else []), *([model] if cls.needs is not Needs.NOTHING else [])]
        return "-".join(used)

    def samples(self, asked: int) -> int:
        """How many samples are read where the settings ask for so many."""
        return asked

    def lacks(self, condition: Condition) -> str | None:
        """Why no record of this task can be judged by a condition, as far as its settings tell; None if one may."""
        made = [KINDS[kind] for kind in self.kinds]
        if not made or condition.possible(made):
            return None
        known = ", ".join(judgeable(made)) or "nothing that a condition speaks of"
        return f"records of task={self.name} have no {condition.quantity}; they have {known}"

    @abstractmethod
    def records(self, work: Work) -> Iterator[Record]:
        """Every record, each as soon as it is known."""

    def findings(self, records: Sequence[Record]) -> Json | None:  # noqa: ARG002
        """The few numbers that the task is for, from the records that there are; None if the records are all."""
        return None

    def warnings(self, records: Sequence[Record]) -> list[str]:  # noqa: ARG002
        """What a reader should know before trusting the records."""
        return []

    @abstractmethod
    def view(self, run: Run) -> View:
        """What the records of a run of this task amount to."""


def expect_different(lengths: Sequence[int]) -> None:
    """A line needs two points."""
    if len(set(lengths)) < 2:
        raise FieldError("lengths", f"needs at least two different lengths, got {list(lengths)}.")

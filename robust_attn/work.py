"""What a task is given to work with, and whom it tells what it is doing. Nothing here knows files or a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, runtime_checkable

from robust_attn.models.settings import ModelSettings
from robust_attn.records.entry import Json
from robust_attn.settings import Settings
from robust_attn.types import FieldError


@runtime_checkable
class AskedTask(Protocol):
    """The task of a run, as far as others need to know it."""

    name: ClassVar[str]

    def samples(self, asked: int) -> int:
        """How many samples are read where the settings ask for so many."""


@runtime_checkable
class AskedBudget(Protocol):
    """The budget of a run: the name of its norm, its radius, and the ball that atoms stay in."""

    name: ClassVar[str]

    @property
    def radius(self) -> float:
        """How far."""

    @property
    def support(self) -> float | str:
        """By name, or by its radius."""


@runtime_checkable
class AskedCertificate(Protocol):
    """How certificates are to be computed."""

    @property
    def deterministic(self) -> bool:
        """Without what holds only with high probability."""

    @property
    def failure_probability(self) -> float:
        """That of a Lanczos value."""

    @property
    def lanczos_steps(self) -> int:
        """How many at most."""

    @property
    def seed(self) -> int | None:
        """Of the drawn starts; None to draw one."""


@runtime_checkable
class Asked(Protocol):
    """What is read of a run's settings (`config/run.py` has all of it)."""

    @property
    def task(self) -> AskedTask:
        """What is done."""

    @property
    def model(self) -> ModelSettings:
        """The model whose layers are looked at."""

    @property
    def data(self) -> Settings:
        """What the model reads."""

    @property
    def attack(self) -> Settings:
        """How tokens are perturbed."""

    @property
    def budget(self) -> AskedBudget:
        """How far."""

    @property
    def certificate(self) -> AskedCertificate:
        """How certificates are computed."""

    @property
    def tokens(self) -> int:
        """Tokens per sample."""

    @property
    def samples(self) -> int:
        """Samples."""

    @property
    def seed(self) -> int:
        """Of everything random but certificates."""

    @property
    def dtype(self) -> str:
        """Precision of the model."""

    @property
    def device(self) -> str:
        """Where the model runs."""

    def layers_of(self, count: int) -> tuple[int, ...]:
        """The layers chosen of a model that has `count`."""


class Desk:
    """Whom a task tells how far it is, and where it leaves what is not a record. This one listens to nothing."""

    def begin(self, title: str, *, layers: int | None = None, samples: int | None = None) -> None:
        """A new part of the run, with so many layers and samples ahead if that is known."""

    def begin_layer(self, title: str) -> None:
        """A layer begins."""

    def end_layer(self) -> None:
        """A layer is done."""

    def step(self) -> None:
        """One step of an attack."""

    def tell(self, sentence: str, *, loud: bool = False) -> None:
        """A sentence for whoever watches the run."""

    def origin(self, weights: str, sha256: Mapping[str, str], note: str | None) -> None:
        """Where the weights come from: the first thing that is known of a run."""

    def inputs(self, tokens: int, spelled: Sequence[Sequence[str]] | None) -> None:
        """The samples of a length, each as its tokens in words; None where the inputs are not text."""

    def keep(self, name: str, values: Json) -> None:
        """A finding that is kept in a file of its own."""


@dataclass(frozen=True)
class Work:
    """The settings of a run, and the desk at which its task works."""

    settings: Asked
    desk: Desk = field(default_factory=Desk)


@contextmanager
def told_as(group: str) -> Iterator[None]:
    """What objects say about their fields, said about the settings of a group."""
    try:
        yield
    except FieldError as error:
        raise error.of_setting(group) from error

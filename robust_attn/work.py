"""What a task is given to work with, and whom it tells what it is doing. Nothing here knows files or a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, runtime_checkable

from robust_attn.models.settings import ModelSettings
from robust_attn.records.entry import Json
from robust_attn.settings import Settings, required, setting
from robust_attn.types import LARGEST_SEED, FieldError

DTYPES = ("float64", "float32", "bfloat16")
"""Precisions that a model may have; a bfloat16 layer is searched in float32, a whole model could not be."""
LARGEST_CERTIFICATE_SEED = 2**63 - 1
SMALLEST = 1e-140
"""The smallest radius that is not zero: squares of displacements must not underflow."""
SUPPORTS = ("auto", "tokens", "normalization")


@runtime_checkable
class AskedTask(Protocol):
    """The task of a run, as far as others need to know it."""

    name: ClassVar[str]

    def samples(self, asked: int) -> int:
        """How many samples are read where the settings ask for so many."""


@dataclass(frozen=True)
class BudgetSettings(Settings):
    """How far an attack may move the token measure."""

    radius: float = setting(0.01, "how far an attack may move the tokens, in the norm of the budget", least=0)
    support: float | str = setting(
        "auto", "the ball that atoms stay in: as the attack has it, by name or by its radius", words=SUPPORTS, above=0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if 0 < self.radius < SMALLEST:
            raise FieldError("radius", f"must be zero or at least {SMALLEST:g}, got {self.radius}.")


@dataclass(frozen=True)
class CertificateSettings(Settings):
    """How certificates are computed."""

    deterministic: bool = setting(False, "leave out what holds only with high probability")
    failure_probability: float = setting(1e-9, "probability that an upper value by Lanczos is wrong", above=0, below=1)
    lanczos_steps: int = setting(64, "Lanczos steps at most", least=1)
    pairs: int | None = setting(
        None,
        "Gaussian samples of the second to fifth order (local.third_order, local.sixth_order); 0 leaves these out, "
        "null: 256, none for split tokens",
        least=0,
    )
    samples: int = setting(
        0, "Gaussian samples of the bound that follows higher orders: sharper, and slow; 0 leaves it out", least=0
    )
    seed: int | None = setting(
        None,
        "repeats a record; null draws a start that nobody knew, and records it",
        least=0,
        most=LARGEST_CERTIFICATE_SEED,
    )
    name: ClassVar[str] = "certificate"


@dataclass(frozen=True)
class Asked(Settings):
    """One choice of every group, and what all tasks share."""

    task: AskedTask = required("what to do")
    model: ModelSettings = required("the model to look at")
    data: Settings = required("what the model reads")
    attack: Settings = required("how tokens are perturbed")
    budget: BudgetSettings = required("the norm in which perturbations are measured")
    tracker: Settings = required("where runs are logged")
    certificate: CertificateSettings = required("how certificates are computed")
    layers: tuple[int, ...] | str = setting("all", "all, or a list of layer numbers such as [0,5]")
    tokens: int = setting(32, "tokens per sample", least=1)
    samples: int = setting(4, "how many samples", least=1)
    only: tuple[int, ...] | None = setting(
        None,
        "samples that are worked on, each by itself; null: all together",
        least=0,
        form="null or a list of numbers such as [0,3]",
    )
    seed: int = setting(0, "seed of everything random except certificates", least=0, most=LARGEST_SEED, whole=True)
    device: str = setting("auto", "where a model runs", form="auto, cpu, cuda, cuda:NUMBER or mps")
    dtype: str = setting("float64", "precision of the model", words=DTYPES)
    tolerance: float | None = setting(None, "short for task.tolerance of task=certify", above=0)
    fail_if: tuple[str, ...] | str | None = setting(
        None, "what ends a run with exit status 4", form="a condition such as certified_radius<0.001, or a list of them"
    )

    def layers_of(self, count: int) -> tuple[int, ...]:
        """The layers chosen of a model that has `count`."""
        return self.layers if isinstance(self.layers, tuple) else tuple(range(count))


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

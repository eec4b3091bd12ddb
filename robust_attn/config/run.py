"""Everything a run is told, once it has been read and checked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from robust_attn.config.budgets import BudgetSettings
from robust_attn.models.settings import ModelSettings
from robust_attn.records.conditions import Condition, conditions_from
from robust_attn.settings import Settings, called, listed, required, setting, settings_of
from robust_attn.tasks.task import DTYPES, Task
from robust_attn.types import LARGEST_SEED, FieldError, UserError

DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d+)?")
LARGEST_CERTIFICATE_SEED = 2**63 - 1
GROUPS = ("task", "model", "data", "attack", "budget", "tracker")
"""The groups of which one choice each is made."""
KEYS = {"budget": "kind"}
"""Under which key the name of a choice stands, where that is not `name`."""


@dataclass(frozen=True)
class CertificateSettings(Settings):
    """How certificates are computed."""

    deterministic: bool = setting(False, "leave out what holds only with high probability")
    failure_probability: float = setting(1e-9, "that of a Lanczos value", above=0, below=1)
    lanczos_steps: int = setting(64, "how many at most", least=1)
    seed: int | None = setting(
        None,
        "repeats a record; null draws a start that nobody knew, and records it",
        least=0,
        most=LARGEST_CERTIFICATE_SEED,
    )
    name: ClassVar[str] = "certificate"


@dataclass(frozen=True)
class RunSettings(Settings):
    """One choice of every group, and what all tasks share."""

    task: Task = required("what is done")
    model: ModelSettings = required("the model whose layers are looked at")
    data: Settings = required("what the model reads")
    attack: Settings = required("how tokens are perturbed")
    budget: BudgetSettings = required("how far")
    tracker: Settings = required("who follows the run")
    certificate: CertificateSettings = required("how certificates are computed")
    layers: tuple[int, ...] | str = setting("all", "all, or a list of layer numbers such as [0,5]")
    tokens: int = setting(32, "tokens per sample", least=1)
    samples: int = setting(4, "samples", least=1)
    seed: int = setting(0, "of everything random but certificates", least=0, most=LARGEST_SEED, whole=True)
    device: str = setting("auto", "where a model runs", form="auto, cpu, cuda, cuda:NUMBER or mps")
    dtype: str = setting("float64", "precision of the model", words=DTYPES)
    tolerance: float | None = setting(None, "short for task.tolerance of task=certify", above=0)
    fail_if: tuple[str, ...] | str | None = setting(
        None, "what ends a run with exit status 4", form="a condition such as certified_radius<0.001, or a list of them"
    )
    name: ClassVar[str] = "run"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not DEVICE.fullmatch(self.device):
            raise FieldError("device", f"must be auto, cpu, cuda, cuda:NUMBER or mps, got {self.device!r}.")
        if self.device == "mps" and self.dtype == "float64":
            raise UserError("device=mps has no float64: take dtype=float32 (certificates are in float64, on the CPU).")
        task = called(type(self.task))
        allowed = self.task.dtypes
        if self.dtype not in allowed:
            expected = f"dtype must be {' or '.join(allowed)}"
            raise UserError(f"task={task} follows gradients through a whole model: {expected}, got {self.dtype!r}.")
        if self.tolerance is not None and not hasattr(self.task, "tolerance"):
            raise UserError(f"tolerance is a setting of task=certify; there is none in task={task}.")
        for condition in self.conditions:
            if (lack := self.task.lacks(condition)) is not None:
                raise UserError(f"fail_if={condition}: {lack}.")

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Those of `fail_if`, read."""
        return conditions_from((self.fail_if,) if isinstance(self.fail_if, str) else self.fail_if or ())

    def layers_of(self, count: int) -> tuple[int, ...]:
        """The layers chosen of a model that has `count`."""
        return self.layers if isinstance(self.layers, tuple) else tuple(range(count))


def plain_fields(settings: Settings) -> dict[str, Any]:
    """Fields by name, as files write them."""
    return {entry.name: listed(getattr(settings, entry.name)) for entry in settings_of(type(settings))}


def plain_choice(group: str, settings: Settings) -> dict[str, Any]:
    """The same with what the choice is called."""
    return {KEYS.get(group, "name"): settings.name} | plain_fields(settings)


def chosen_layers(value: Any) -> tuple[int, ...] | str:
    """The layers named, each once, or the word `all`."""
    if value == "all":
        return "all"
    layers = [value] if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(layers, list) or not layers or not all(type(layer) is int for layer in layers):
        raise FieldError("layers", f"must be 'all' or a list of layer numbers such as [0,5], got {value!r}.")
    return tuple(dict.fromkeys(layers))

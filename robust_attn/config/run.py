"""Everything a run is told, once it has been read and checked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from robust_attn.records.conditions import Condition, conditions_from
from robust_attn.settings import Settings, called, listed, required, settings_of
from robust_attn.tasks.task import Task
from robust_attn.types import FieldError, UserError
from robust_attn.work import Asked

DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d+)?")
GROUPS = ("task", "model", "data", "attack", "budget", "tracker")
"""The groups of which one choice each is made."""
KEYS = {"budget": "kind"}
"""Under which key the name of a choice stands, where that is not `name`."""


@dataclass(frozen=True)
class RunSettings(Asked):
    """What is asked for, with a task that can do it, checked as a whole."""

    task: Task = required("what to do")
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


def plain_choice(group: str, settings: Settings) -> dict[str, Any]:
    """What the choice is called, and its fields by name, as files write them."""
    fields = {entry.name: listed(getattr(settings, entry.name)) for entry in settings_of(type(settings))}
    return {KEYS.get(group, "name"): settings.name} | fields


def chosen_layers(value: Any) -> tuple[int, ...] | str:
    """The layers named, each once, or the word `all`."""
    if value == "all":
        return "all"
    layers = [value] if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(layers, list) or not layers or not all(type(layer) is int for layer in layers):
        raise FieldError("layers", f"must be 'all' or a list of layer numbers such as [0,5], got {value!r}.")
    return tuple(dict.fromkeys(layers))

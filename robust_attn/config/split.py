"""Layers and samples as jobs of a sweep: `sweep.jobs=layers,samples` in the words of Hydra."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

from robust_attn.config.choices import choices
from robust_attn.models.catalog import ANY, spec_of
from robust_attn.settings import default_of
from robust_attn.tasks.task import Needs, Task
from robust_attn.types import UserError
from robust_attn.work import Asked

PARTS = ("layers", "samples")
DEPTHS = ("num_hidden_layers", "n_layers", "n_layer", "num_layers")
"""How configurations of models call the number of their layers."""
DEFAULTS = {"model": "bert", "task": "attack"}


def as_jobs(parts: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """The arguments with every layer, or every sample, or both, as a job of its own.

    Layers that were named are those that are meant. Samples are read as always and worked on one by one (`only`), so
    that a record does not depend on which job it comes from.
    """
    unknown = [part for part in parts if part not in PARTS]
    if unknown or not parts:
        raise UserError(f"sweep.jobs must be layers, samples or layers,samples, got {','.join(parts)!r}.")
    typed = dict(item.split("=", 1) for item in arguments if "=" in item and not item.startswith("-"))
    kind = choices("task").get(typed.get("task", DEFAULTS["task"]))
    if kind is None or not issubclass(kind, Task) or kind.needs is not Needs.LAYERS:
        raise UserError("sweep.jobs is for one task, and one that looks at the layers of a model.")
    kept, more = list(arguments), []
    if "layers" in parts:
        kept = [item for item in kept if not item.startswith("layers=")]
        more.append(f"layers={_each(_layers(typed))}")
    if "samples" in parts:
        more.append(f"only={_each(range(_samples(typed, kind)))}")
    return [*kept, *more]


def _each(numbers: Sequence[int]) -> str:
    return ",".join(f"[{number}]" for number in numbers)


def _layers(typed: Mapping[str, str]) -> Sequence[int]:
    """The layers that were named, or all of the model's."""
    named = typed.get("layers", "all")
    if named != "all":
        numbers = named.strip().removeprefix("[").removesuffix("]").split(",")
        if not all(number.strip().isdecimal() for number in numbers):
            raise UserError(f"sweep.jobs=layers takes layers=[0,5] apart, or all of them, got layers={named}.")
        return list(dict.fromkeys(int(number) for number in numbers))
    depth = _depth(typed)
    if depth is None:
        raise UserError("sweep.jobs=layers: how many layers the model has is not known here; give layers=[0,1,2].")
    return range(depth)


def _depth(typed: Mapping[str, str]) -> int | None:
    """How many layers the model has, as far as the catalog or the folder of its weights tells; nothing is loaded."""
    name, weights = typed.get("model", DEFAULTS["model"]), typed.get("model.weights", "auto")
    if any(key.startswith("model.sizes") for key in typed):
        return None
    folder = Path(weights).expanduser() / "config.json"
    if folder.is_file():
        sizes = json.loads(folder.read_text(encoding="utf-8"))
    elif name == ANY or "," in name:
        return None
    else:
        sizes = spec_of(name).sizes
    found = [sizes[key] for key in DEPTHS if isinstance(sizes.get(key), int)]
    return found[0] if found else None


def _samples(typed: Mapping[str, str], task: type[Task]) -> int:
    """How many samples were asked for."""
    if task.samples is not Task.samples:
        raise UserError(f"sweep.jobs=samples: task={task.name} counts its samples itself; give only=[0],[1] and so on.")
    default = next(default_of(entry) for entry in fields(Asked) if entry.name == "samples")
    asked = typed.get("samples", str(default))
    if not asked.isdecimal() or not int(asked):
        raise UserError(f"sweep.jobs=samples needs one number of samples, got samples={asked}.")
    return int(asked)

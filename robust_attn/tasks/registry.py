"""Every task by its name: each module of this folder that defines one, and those of installed packages."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from typing import TypeGuard

from robust_attn import tasks
from robust_attn.plugins import plugins
from robust_attn.tasks.task import Task

ALIASES: Mapping[str, str] = {"through_model": "predict"}
"""Names by which tasks were called before."""
FIRST = ("attack", "certify", "predict", "lipschitz", "worst_case")
"""The tasks that most people want come first."""


@functools.cache
def tasks_by_name() -> dict[str, type[Task]]:
    """The tasks of this package. Nothing slow is imported for it."""
    modules = [f"{tasks.__name__}.{module.name}" for module in pkgutil.iter_modules(tasks.__path__)]
    kinds = [kind for name in modules for kind in vars(importlib.import_module(name)).values() if _is_task(kind)]
    found = {kind.name: kind for kind in kinds}
    return {name: found[name] for name in (*FIRST, *sorted(set(found) - set(FIRST)))}


def task_named(name: str | None) -> type[Task] | None:
    """The task of that name, whichever package it comes from; None where there is none."""
    name = ALIASES.get(name or "", name)
    own = tasks_by_name().get(name or "")
    if own is not None or name is None:
        return own
    found = plugins("tasks", _is_task, "a task", tasks_by_name()).found.get(name)
    return found if _is_task(found) else None


def _is_task(kind: object) -> TypeGuard[type[Task]]:
    return inspect.isclass(kind) and issubclass(kind, Task) and not inspect.isabstract(kind)

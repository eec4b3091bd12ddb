"""Which view a run is shown in: its task is asked."""

from __future__ import annotations

from robust_attn.records.store import Run
from robust_attn.settings import read, settings_of
from robust_attn.tasks.registry import task_named
from robust_attn.tasks.task import Task
from robust_attn.types import FieldError
from robust_attn.views.view import View, nothing_view


def view_of(run: Run) -> View:
    """What the records of a run amount to; nothing where there are none, or where nobody knows the task."""
    task = task_of(run)
    return nothing_view() if task is None or not run.records else task.view(run)


def task_of(run: Run) -> Task | None:
    """The task with the settings that the run was given, or with the usual ones where these cannot be read any more."""
    kind = task_named(run.task)
    if kind is None:
        return None
    chosen = run.config.get("task")
    given = chosen if isinstance(chosen, dict) else {}
    names = [entry.name for entry in settings_of(kind)]
    if not set(names) <= set(given):
        return kind()
    try:
        return read(kind, {name: given[name] for name in names})
    except FieldError:
        return kind()

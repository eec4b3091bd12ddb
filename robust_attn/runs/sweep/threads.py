"""Threads per job, so that jobs side by side do not fight for cores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def threads_per_job(launcher: Mapping[str, Any]) -> int | None:
    """The cores a submitit job asked for, else one. None where the launcher sees to it: joblib divides the cores
    among its workers, Ray gives a task the cores it asked for, and with the basic launcher jobs follow one another.
    """
    if "submitit" not in str(launcher.get("_target_", "")):
        return None
    return int(launcher.get("cpus_per_task") or 1)

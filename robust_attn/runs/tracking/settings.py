"""Who follows a run, as the command line sets it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from robust_attn.settings import Settings, setting

MODES = ("offline", "online", "disabled")


@dataclass(frozen=True)
class Wandb(Settings):
    """Weights & Biases."""

    mode: str = setting("offline", "where it writes", words=MODES)
    project: str = setting("robust_attn", "the project that runs belong to")
    name: ClassVar[str] = "wandb"


@dataclass(frozen=True)
class NoTracking(Settings):
    """No tracker: nothing is logged."""

    name: ClassVar[str] = "none"


TRACKERS: tuple[type[Settings], ...] = (Wandb, NoTracking)

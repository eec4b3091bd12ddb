"""What a tracker is told, the one that does not listen, and which one the settings ask for."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from robust_attn.records.kinds import Record
from robust_attn.records.summary import Summary
from robust_attn.runs.tracking.settings import Wandb
from robust_attn.settings import Settings


@dataclass(frozen=True)
class Begun:
    """A run that begins: `config` holds nested plain values, `sweep` names the sweep that it is part of, if any."""

    folder: Path
    config: Mapping[str, Any] = field(default_factory=dict)
    sweep: str | None = None
    task: str = ""
    tags: tuple[str, ...] = ()


class Tracker(ABC):
    """Follows one run from start to finish. No method ever raises: a tracker may fail, a run may not fail with it."""

    @abstractmethod
    def start(self, run: Begun) -> None:
        """A run begins, in a folder that is there already."""

    @abstractmethod
    def record(self, record: Record) -> None:
        """One record is known and already written."""

    @abstractmethod
    def finish(self, summary: Summary, folder: Path) -> None:
        """The run has ended as `summary` says; its report and figures, as far as there are any, are in `folder`."""


@final
class NoTracker(Tracker):
    """Keeps nothing."""

    def start(self, run: Begun) -> None:
        """Nothing."""

    def record(self, record: Record) -> None:
        """Nothing."""

    def finish(self, summary: Summary, folder: Path) -> None:
        """Nothing."""


def make_tracker(asked: Settings) -> Tracker:
    """The tracker that the settings ask for; wandb is not imported before it starts."""
    if not isinstance(asked, Wandb) or asked.mode == "disabled":
        return NoTracker()
    from robust_attn.runs.tracking.wandb_tracker import WandbTracker

    return WandbTracker(mode=asked.mode, project=asked.project)

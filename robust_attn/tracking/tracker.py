"""What a tracker is told, and the one that does not listen."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, final


class Tracker(ABC):
    """Follows one run from start to finish. No method ever raises: a tracker may fail, a run may not fail with it."""

    @abstractmethod
    def start(self, run_folder: Path, config: dict[str, Any], name: str, group: str) -> None:
        """A run begins; `config` holds nested plain values, `group` names the sweep it belongs to."""

    @abstractmethod
    def record(self, record: dict[str, Any]) -> None:
        """One record is known and already written."""

    @abstractmethod
    def finish(self, summary: dict[str, Any], folder: Path, failed: bool) -> None:
        """The run has ended, well or not; its report and figures, as far as there are any, are in `folder`."""


@final
class NoTracker(Tracker):
    """Keeps nothing."""

    def start(self, run_folder: Path, config: dict[str, Any], name: str, group: str) -> None:
        """Nothing."""

    def record(self, record: dict[str, Any]) -> None:
        """Nothing."""

    def finish(self, summary: dict[str, Any], folder: Path, failed: bool) -> None:
        """Nothing."""

"""Bars with the time left for the layers, samples and steps of a run; nothing at all where there is no terminal.

Attacks draw nothing and report nothing. The target that they are given counts its evaluations and tells the bar of each
step (`attacks/target.py`). An ascent ends when it stalls, so how many steps come is not known beforehand: the bar
expects as many as the layer before took, and for the first layer it only counts. Most attacks take all samples of a
layer together; the bar of samples then fills at once.
"""

from __future__ import annotations

from types import TracebackType
from typing import final

from rich import progress
from rich.console import Console


@final
class RunBars:
    """What a run shows while it works. Its methods may be called from any thread."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.progress = progress.Progress(
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._whole = self.progress.add_task("", total=None)
        self._samples = self.progress.add_task("samples", total=None, visible=False)
        self._steps = self.progress.add_task("steps", total=None, visible=False)

    def __enter__(self) -> RunBars:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def begin(self, title: str, *, layers: int | None = None, samples: int | None = None) -> None:
        """A new part of the run, with so many layers and samples ahead if that is known."""
        self.progress.reset(self._whole, description=title, total=layers)
        self.progress.reset(self._samples, total=samples, visible=samples is not None)
        self.progress.reset(self._steps, total=None, visible=False)

    def begin_layer(self, title: str) -> None:
        """A layer begins; it is expected to take as many steps as the one before."""
        taken = self._completed(self._steps)
        self.progress.update(self._whole, description=title)
        self.progress.reset(self._samples)
        self.progress.reset(self._steps, total=taken or None, visible=True)

    def end_layer(self) -> None:
        """A layer is done."""
        self.progress.advance(self._whole)

    def step(self) -> None:
        """One step of an attack."""
        self.progress.advance(self._steps)

    def record(self, sample: int) -> None:
        """A record is known, so its sample is done."""
        self.progress.update(self._samples, completed=max(sample + 1, self._completed(self._samples)))

    def _completed(self, bar: progress.TaskID) -> float:
        return next(task.completed for task in self.progress.tasks if task.id == bar)

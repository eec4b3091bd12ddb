"""Bars with the time left for the layers, samples and steps of a run; nothing at all where there is no terminal.

Attacks draw nothing and report nothing. The target that they are given counts its evaluations and tells the bar of each
step (`attacks/target.py`). An ascent ends when it stalls, so how many steps come is not known beforehand: the bar
expects as many as the layer before took, and for the first layer it only counts. Samples are counted over all layers of
a run: most attacks take those of a layer together, and what is done of it is told while the next one is under way.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich import progress
from rich.console import Console

from robust_attn.records.kinds import Record

SAMPLES, SAMPLES_BY_LAYER = "samples", "samples × layers"


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
        self._samples = self.progress.add_task(SAMPLES, total=None, visible=False)
        self._steps = self.progress.add_task("steps", total=None, visible=False)
        self._done: set[tuple[int | None, int, int]] = set()
        self._by_layer = False

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def begin(self, title: str, *, layers: int | None = None, samples: int | None = None) -> None:
        """A new part of the run, with so many layers and samples ahead if that is known."""
        self._done, self._by_layer = set(), layers is not None
        total, name = (samples, SAMPLES) if layers is None or samples is None else (samples * layers, SAMPLES_BY_LAYER)
        self.progress.reset(self._whole, description=title, total=layers)
        self.progress.reset(self._samples, description=name, total=total, visible=samples is not None)
        self.progress.reset(self._steps, total=None, visible=False)

    def begin_layer(self, title: str) -> None:
        """A layer begins; it is expected to take as many steps as the one before."""
        taken = self._completed(self._steps)
        self.progress.update(self._whole, description=title)
        self.progress.reset(self._steps, total=taken or None, visible=taken > 0)

    def end_layer(self) -> None:
        """A layer is done."""
        self.progress.advance(self._whole)

    def step(self) -> None:
        """One step of an attack; what takes no steps shows no bar of them."""
        self.progress.update(self._steps, advance=1, visible=True)

    def record(self, record: Record) -> None:
        """A record is known, so its sample is done, at its layer where layers are counted."""
        self._done.add((record.layer if self._by_layer else None, record.sample, record.tokens))
        self.progress.update(self._samples, completed=len(self._done))

    def _completed(self, bar: progress.TaskID) -> float:
        return next(task.completed for task in self.progress.tasks if task.id == bar)

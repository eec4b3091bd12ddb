"""The desk of a run: bars and sentences for a person, files for everybody else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

from rich.console import Console

from robust_attn.records.entry import Json
from robust_attn.records.store import ENVIRONMENT
from robust_attn.runs.environment import environment
from robust_attn.runs.folder import RunFolder
from robust_attn.runs.progress import RunBars
from robust_attn.work import Desk


@final
class RunDesk(RunBars, Desk):
    """Bars that show how far the task is; its findings go to the run folder. Any thread may work at it."""

    def __init__(self, folder: RunFolder, console: Console, dtype: str) -> None:
        super().__init__(console)
        self.folder = folder
        self.dtype = dtype

    def tell(self, sentence: str, *, loud: bool = False) -> None:
        """A line above the bars."""
        self.console.print(sentence, style="bold yellow" if loud else None, markup=False, highlight=False)

    def origin(self, weights: str, sha256: Mapping[str, str], note: str | None) -> None:
        """environment.json."""
        self.folder.write(ENVIRONMENT, environment(weights=weights, sha256=sha256, note=note, dtype=self.dtype))

    def inputs(self, tokens: int, spelled: Sequence[Sequence[str]] | None) -> None:
        """inputs.json grows by a length."""
        self.folder.add_inputs(tokens, None if spelled is None else [list(sample) for sample in spelled])

    def keep(self, name: str, values: Json) -> None:
        """A file of its own, perhaps in a folder of its own below that of the run."""
        place = self.folder.path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        RunFolder(place.parent).write(place.name, values)

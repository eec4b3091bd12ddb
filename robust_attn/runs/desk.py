"""The desk of a run: bars and sentences for a person, files for everybody else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

from robust_attn.records.entry import Json
from robust_attn.records.store import ENVIRONMENT
from robust_attn.runs.environment import environment
from robust_attn.runs.folder import RunFolder
from robust_attn.runs.progress import RunBars
from robust_attn.work import Desk


@final
class RunDesk(Desk):
    """Tells the bars how far the task is, and leaves its findings in the run folder. Any thread may work at it."""

    def __init__(self, folder: RunFolder, bars: RunBars, dtype: str) -> None:
        self.folder = folder
        self.bars = bars
        self.dtype = dtype

    def begin(self, title: str, *, layers: int | None = None, samples: int | None = None) -> None:
        """New bars."""
        self.bars.begin(title, layers=layers, samples=samples)

    def begin_layer(self, title: str) -> None:
        """The bar of layers changes its title."""
        self.bars.begin_layer(title)

    def end_layer(self) -> None:
        """The bar of layers moves on."""
        self.bars.end_layer()

    def step(self) -> None:
        """The bar of steps moves on."""
        self.bars.step()

    def tell(self, sentence: str, *, loud: bool = False) -> None:
        """A line above the bars."""
        self.bars.console.print(sentence, style="bold yellow" if loud else None, markup=False, highlight=False)

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

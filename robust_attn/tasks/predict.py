"""How far until a classifier's prediction flips: attacked from above, certified from below, layers watched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, ClassVar, final

from robust_attn.records.entry import Json
from robust_attn.records.kinds import LayerRecord, PredictionRecord, Record
from robust_attn.records.store import Run
from robust_attn.settings import setting
from robust_attn.tasks.carried import carried_samples
from robust_attn.tasks.task import Needs, Task
from robust_attn.views.predictions import predictions_view
from robust_attn.views.view import View
from robust_attn.work import Work

if TYPE_CHECKING:
    from robust_attn.pipeline.flips import FlipOptions
    from robust_attn.pipeline.promises import PromiseOptions


WAYS = ("move", "one_word", "split", "typed")
PROOFS = ("all", "one_word", "interval", "product")


@final
@dataclass(frozen=True)
class PredictTask(Task):
    """The radius at which predictions of a classifier flip, and the one within which they cannot."""

    flip: tuple[str, ...] = setting(["move", "one_word"], "ways to look for a flip, beside the attack", words=WAYS)
    certify: tuple[str, ...] = setting(["all", "interval", "product"], "certified radii, [] for none", words=PROOFS)
    accuracy: float = setting(0.05, "relative accuracy of flip radii", above=0, below=1)
    steps: int = setting(16, "gradients of one descent at one radius", least=1)
    restarts: int = setting(1, "random starts of a descent beside the informed ones", least=0)
    words: int = setting(64, "at most so many tokens are tried alone, the first ones that were typed", least=1)
    context: int = setting(8192, "no piece of a split token is lighter than 1 / context", least=2)
    edits: int = setting(1, "edits typed one after another at most", least=1)
    reads: int = setting(192, "texts read for one edit, roughly", least=1)
    sketch: int | None = setting(None, "Gaussian samples of a certificate; null goes by the model's size", least=16)
    smoothing_sigma: float = setting(0.1, "noise of randomised smoothing", above=0)
    smoothing_samples: int = setting(0, "noisy inputs read for smoothing, 0 for none", least=0)
    smoothing_failure_probability: float = setting(
        0.001, "probability that a smoothed radius is wrong", above=0, below=1
    )
    watch: bool = setting(True, "records of every layer that the attack goes through")
    resume: str | None = setting(None, "the folder of an interrupted run whose finished samples are kept")
    name: ClassVar[str] = "predict"
    kinds: ClassVar[tuple[str, ...]] = ("prediction", "layer")
    needs: ClassVar[Needs] = Needs.CLASSIFIER
    attacks: ClassVar[bool] = True
    dtypes: ClassVar[tuple[str, ...]] = ("float64", "float32")

    def records(self, work: Work) -> Iterator[Record]:
        """For each sample one record of the prediction and one of every layer."""
        from robust_attn.pipeline.layers import budget_at, certificate_options
        from robust_attn.pipeline.predictions import ThroughModel
        from robust_attn.pipeline.whole import read

        whole, settings = read(work), work.settings
        flips, promises = self._options()
        task = ThroughModel(whole.attack, budget_at(settings), self.accuracy, flips, promises)
        layers = whole.layers if self.watch else ()
        options = certificate_options(settings)
        done = {}
        if self.resume is not None:
            done = carried_samples(Path(self.resume).expanduser(), settings, len(layers))
            work.desk.tell(f"{len(done)} of {len(whole.readings)} samples are kept from {self.resume}")
        for reading in whole.readings:
            kept = done.get(reading.origin.sample)
            fresh = task.records(whole.classifier, [reading], layers, options, seed=settings.seed)
            yield from fresh if kept is None else kept

    def _options(self) -> tuple[FlipOptions, PromiseOptions]:
        from robust_attn.pipeline.flips import FlipOptions
        from robust_attn.pipeline.promises import PromiseOptions
        from robust_attn.predictions.smoothing import Smoothing

        smoothing = None
        if self.smoothing_samples:
            chance = self.smoothing_failure_probability
            smoothing = Smoothing(self.smoothing_sigma, self.smoothing_samples, failure_probability=chance)
        flips = FlipOptions(
            self.flip, self.accuracy, self.steps, self.restarts, self.words, self.context, self.edits, self.reads
        )
        return flips, PromiseOptions(self.certify, self.sketch, smoothing)

    def findings(self, records: Sequence[Record]) -> Json | None:
        """How many predictions flipped, the radii of these flips, and how near layers came to their certificates."""
        predictions = [record for record in records if isinstance(record, PredictionRecord)]
        ways = dict.fromkeys(way for record in predictions for way in record.flip_radius)
        radii = {way: _known([record.flip_radius.get(way) for record in predictions]) for way in ways}
        names = dict.fromkeys(name for record in predictions for name in record.certified_radius)
        proved = {name: _known([record.certified_radius.get(name) for record in predictions]) for name in names}
        tightness = _known([record.tightness for record in records if isinstance(record, LayerRecord)])
        return {
            "samples": len(predictions),
            "flipped_within_budget": sum(
                record.attacked is not None and record.attacked.flipped for record in predictions
            ),
            "flipped_at_some_radius": sum(record.smallest_flip is not None for record in predictions),
            "smallest_flip_radius": {way: min(values, default=None) for way, values in radii.items()},
            "median_flip_radius": {way: median(values) if values else None for way, values in radii.items()},
            "smallest_certified_radius": {name: min(values, default=None) for name, values in proved.items()},
            "median_certified_radius": {name: median(values) if values else None for name, values in proved.items()},
            "largest_tightness": max(tightness, default=None),
        }

    def view(self, run: Run) -> View:
        """Which predictions flip, and how far away."""
        return predictions_view(run)


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]

"""Attack the prediction of a whole classifier, watch every layer on the way, and find the radius of a flip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import ClassVar, final

from robust_attn.records.entry import Json
from robust_attn.records.kinds import LayerRecord, PredictionRecord, Record
from robust_attn.records.store import Run
from robust_attn.settings import setting
from robust_attn.tasks.task import Needs, Task
from robust_attn.views.predictions import predictions_view
from robust_attn.views.view import View
from robust_attn.work import Work


@final
@dataclass(frozen=True)
class PredictTask(Task):
    """Attack a whole classifier, watch every layer, and find the radius of a flip."""

    accuracy: float = setting(0.05, "relative accuracy of that radius", above=0, below=1)
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
        task = ThroughModel(whole.attack, budget_at(settings), self.accuracy)
        options = certificate_options(settings)
        yield from task.records(whole.classifier, whole.batch, whole.layers, options, seed=settings.seed)

    def findings(self, records: Sequence[Record]) -> Json | None:
        """How many predictions flipped, the radii of these flips, and how near layers came to their certificates."""
        predictions = [record for record in records if isinstance(record, PredictionRecord)]
        ways = dict.fromkeys(way for record in predictions for way in record.flip_radius)
        radii = {way: _known([record.flip_radius.get(way) for record in predictions]) for way in ways}
        tightness = _known([record.tightness for record in records if isinstance(record, LayerRecord)])
        return {
            "samples": len(predictions),
            "flipped_within_budget": sum(
                record.attacked is not None and record.attacked.flipped for record in predictions
            ),
            "flipped_at_some_radius": sum(record.smallest_flip is not None for record in predictions),
            "smallest_flip_radius": {way: min(values, default=None) for way, values in radii.items()},
            "median_flip_radius": {way: median(values) if values else None for way, values in radii.items()},
            "largest_tightness": max(tightness, default=None),
        }

    def view(self, run: Run) -> View:
        """Which predictions flip, and how far away."""
        return predictions_view(run)


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]

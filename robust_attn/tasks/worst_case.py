"""Search for the tokens in a ball at which a layer is steepest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

from robust_attn.records.kinds import Record
from robust_attn.records.store import Run
from robust_attn.settings import setting
from robust_attn.tasks.task import Task
from robust_attn.types import UserError
from robust_attn.views.balls import ball_view
from robust_attn.views.view import View
from robust_attn.work import Work


@final
@dataclass(frozen=True)
class WorstCaseTask(Task):
    """Search for the tokens in a ball with the largest local Lipschitz constant."""

    radius: float | None = setting(None, "the radius of the ball, null for that of the layer's normalisation", least=0)
    steps: int = setting(60, "steps of the search", least=0)
    restarts: int = setting(2, "random starts of the search", least=0)
    masses: bool = setting(False, "search for the masses of the tokens too")
    name: ClassVar[str] = "worst_case"
    kinds: ClassVar[tuple[str, ...]] = ("worst_case",)

    def records(self, work: Work) -> Iterator[Record]:
        """One record per layer; the search brings its own tokens."""
        from robust_attn.attacks.worst_case import WorstCaseSearch
        from robust_attn.data.settings import Gaussian
        from robust_attn.pipeline.balls import search_records
        from robust_attn.pipeline.jobs import LayerJob
        from robust_attn.pipeline.layers import each_layer

        def found(job: LayerJob) -> Iterator[Record]:
            radius = self._radius(job.layer.input_radius, job.subject.layer)
            search = WorstCaseSearch(radius, self.steps, self.restarts, masses=self.masses)
            return search_records(job, search, work.settings.tokens, seed=work.settings.seed)

        yield from each_layer(work, found, source=Gaussian(1.0))

    def _radius(self, own: float | None, layer: int | None) -> float:
        radius = own if self.radius is None else self.radius
        if radius is None:
            raise UserError(f"Layer {layer} has no normalisation in front of it; give task.radius=...")
        return float(radius)

    def view(self, run: Run) -> View:
        """Gains found against gains proved."""
        return ball_view(run)

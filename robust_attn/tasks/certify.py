"""Certificates of every layer and head, without an attack."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

from robust_attn.records.conditions import Condition
from robust_attn.records.kinds import Record
from robust_attn.records.store import Run
from robust_attn.settings import setting
from robust_attn.tasks.task import Task
from robust_attn.views.checks import checks_view
from robust_attn.views.view import View
from robust_attn.work import Work


@final
@dataclass(frozen=True)
class CertifyTask(Task):
    """Certificates of every layer, no attack."""

    heads: bool = setting(True, "certificates of every head too")
    tolerance: float | None = setting(None, "also the largest radius that keeps the output change below it", above=0)
    name: ClassVar[str] = "certify"
    kinds: ClassVar[tuple[str, ...]] = ("certify",)

    def lacks(self, condition: Condition) -> str | None:
        """A radius is certified where a tolerance is given."""
        if condition.quantity == "certified_radius" and self.tolerance is None:
            return "task=certify has a certified_radius where a tolerance is given, as in tolerance=0.1"
        return super().lacks(condition)

    def records(self, work: Work) -> Iterator[Record]:
        """One record per layer, head and sample."""
        from robust_attn.pipeline.checks import certify_records
        from robust_attn.pipeline.layers import budget_at, certificate_options, each_layer

        settings, options = work.settings, certificate_options(work.settings)
        yield from each_layer(
            work,
            lambda job: certify_records(
                job, budget_at(settings, job.layer), options, heads=self.heads, tolerance=self.tolerance
            ),
        )

    def view(self, run: Run) -> View:
        """Promises within the budget, and what they are made of."""
        return checks_view(run)

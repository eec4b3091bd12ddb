"""Attack every layer, certify it, and compare the two: the main job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from robust_attn.records.kinds import AttackRecord, Record, of_kind
from robust_attn.records.store import Run
from robust_attn.tasks.hygiene import hygiene_warnings
from robust_attn.tasks.task import Task
from robust_attn.views.checks import checks_view
from robust_attn.views.view import View
from robust_attn.work import Work


@final
@dataclass(frozen=True)
class AttackTask(Task):
    """Attack every layer, certify it, compare the two."""

    name: ClassVar[str] = "attack"
    kinds: ClassVar[tuple[str, ...]] = ("attack",)
    attacks: ClassVar[bool] = True

    @classmethod
    def folder_name(cls, attack: str, model: str) -> str:
        """The main job goes by its attack."""
        return f"{attack}-{model}"

    def records(self, work: Work) -> Iterator[Record]:
        """One record per layer and sample."""
        from robust_attn.pipeline.checks import attack_records
        from robust_attn.pipeline.layers import budget_at, certificate_options, each_layer
        from robust_attn.work import told_as

        settings = work.settings
        with told_as("attack"):
            attack = settings.attack.made()
        options = certificate_options(settings)
        yield from each_layer(
            work,
            lambda job: attack_records(
                job, attack, budget_at(settings, job.layer), options, seed=settings.seed, on_step=work.desk.step
            ),
            batch=(1 if attack.own_radius else settings.samples, attack.copies),
        )

    def warnings(self, records: Sequence[Record]) -> list[str]:
        """Whether the attack is to be believed."""
        return hygiene_warnings(of_kind(records, AttackRecord))

    def view(self, run: Run) -> View:
        """Promises within the budget, and how near the attack came to them."""
        return checks_view(run)

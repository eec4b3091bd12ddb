"""Try to break the certificates themselves, on random and adversarial layers and on whole models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, final

from robust_attn.records.entry import Json
from robust_attn.records.kinds import Record
from robust_attn.records.store import Run
from robust_attn.settings import setting
from robust_attn.tasks.task import Needs, Task
from robust_attn.types import FieldError
from robust_attn.views.campaign import campaign_view, findings_of
from robust_attn.views.view import View
from robust_attn.work import Work

VIOLATIONS = "violations"


@final
@dataclass(frozen=True)
class SoundnessTask(Task):
    """Try to break certificates on random layers and whole models."""

    cases: int | None = setting(200, "how many layers, null for no limit", least=1)
    minutes: float | None = setting(None, "how long, null for no limit", above=0)
    models: int = setting(20, "how many whole models too, with seeds of their own", least=0)
    first_seed: int = setting(0, "the seed of the first layer, and of the first whole model", least=0)
    resume: str | None = setting(None, "the folder of a campaign to continue")
    replay: str | None = setting(None, "a saved violation to look at again instead")
    name: ClassVar[str] = "soundness"
    kinds: ClassVar[tuple[str, ...]] = ("soundness", "campaign")
    needs: ClassVar[Needs] = Needs.NOTHING

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cases is None and self.minutes is None:
            raise FieldError("cases", "and minutes cannot both be null: the campaign would never end.")

    def records(self, work: Work) -> Iterator[Record]:
        """Every case of a campaign, which draws its own models; violations are saved as they are found."""
        work.desk.origin("drawn", {}, None)
        work.desk.begin(self.name, layers=None if self.cases is None else self.cases + self.models)
        for record in self._campaign(work):
            work.desk.end_layer()
            yield record

    def _campaign(self, work: Work) -> Iterator[Record]:
        from robust_attn.soundness.campaign import Campaign, continued, replayed
        from robust_attn.soundness.check import saved_case

        if self.replay is not None:
            yield replayed(saved_case(Path(self.replay).expanduser()))
            return
        campaign = Campaign(self.cases, self.minutes, self.first_seed, self.models, self.first_seed)
        if self.resume is not None:
            earlier = continued(Path(self.resume).expanduser())
            yield earlier
            campaign = replace(
                campaign, first_seed=earlier.carried.last_seed + 1, first_model=earlier.carried.last_model + 1
            )
        yield from campaign.records(lambda name, found: work.desk.keep(f"{VIOLATIONS}/{name}", found))

    def findings(self, records: Sequence[Record]) -> Json | None:
        """How many cases and comparisons, what was drawn, the closest approach to each bound, and what is unknown."""
        return findings_of(records).to_json()

    def view(self, run: Run) -> View:
        """Whether a promise was broken, and how near each bound was approached."""
        return campaign_view(run)

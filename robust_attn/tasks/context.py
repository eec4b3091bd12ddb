"""What one of N tokens can do: gains that an attack attains and that are certified, against the context N."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from robust_attn.records.entry import Json
from robust_attn.records.kinds import ContextRecord, Record, of_kind
from robust_attn.records.store import Run
from robust_attn.settings import setting
from robust_attn.tasks.task import Task
from robust_attn.views.panel import Look, Panel, Role, line
from robust_attn.views.studies import study_view
from robust_attn.views.view import View
from robust_attn.views.words import largest
from robust_attn.work import Work


@final
@dataclass(frozen=True)
class ContextTask(Task):
    """Attained and certified gain against the context."""

    contexts: tuple[float, ...] = setting(
        [32, 512, 8192, 131072, 1e6, 1e9],
        "contexts N: no piece of a token is lighter than 1 / N",
        least=1,
    )
    steps: int = setting(40, "gradient steps of the attack at most", least=0)
    name: ClassVar[str] = "context"
    kinds: ClassVar[tuple[str, ...]] = ("context",)

    def records(self, work: Work) -> Iterator[Record]:
        """One record per layer, context and sample."""
        from robust_attn.attacks.mass_split import MassSplit
        from robust_attn.pipeline.checks import context_records
        from robust_attn.pipeline.layers import budget_at, certificate_options, each_layer, expect_wasserstein

        settings, attack = work.settings, MassSplit(steps=self.steps)
        options = certificate_options(settings)
        yield from each_layer(
            work,
            lambda job: context_records(
                job,
                attack,
                expect_wasserstein(budget_at(settings, job.layer)),
                self.contexts,
                options,
                seed=settings.seed,
            ),
            batch=(settings.samples, 2),
        )

    def findings(self, records: Sequence[Record]) -> Json | None:
        """Per layer and context the largest gains over the samples."""
        own = of_kind(records, ContextRecord)
        found = []
        for layer in _layers(own):
            for context, attained, certified in _gains(own, layer):
                found.append({"layer": layer, "context": context, "attained": attained, "certified": certified})
        return {"gains": found}

    def view(self, run: Run) -> View:
        """Both gains of every layer."""
        return study_view(run, panels(of_kind(run.records, ContextRecord)))


_CAPTION = (
    "No piece of a token is lighter than 1 / N. Solid: the largest gain that is certified against all such splits. "
    "Dashed: what an attack attained in this context or a shorter one."
)


def panels(records: Sequence[ContextRecord]) -> tuple[Panel, ...]:
    """One panel, two lines for every layer: the largest over samples."""
    if not records:
        return ()
    lines, looks = {}, {}
    for layer in _layers(records):
        gains = _gains(records, layer)
        for name, role, index in (("certified", Role.PROMISED, 2), ("attained", Role.REACHED, 1)):
            told = f"layer {layer}, {name}"
            lines[told] = line((gain[0], gain[index]) for gain in gains)
            looks[told] = Look(role, f"layer {layer}")
    title = "Gain against the context"
    return (
        Panel("context", title, "context N, tokens", "output change / radius", lines, looks=looks, caption=_CAPTION),
    )


def _layers(records: Sequence[ContextRecord]) -> list[int]:
    return sorted({record.layer or 0 for record in records})


def _gains(records: Sequence[ContextRecord], layer: int) -> list[tuple[float, float | None, float | None]]:
    """Context, largest attained and largest certified gain; what a shorter context allows a longer one does too."""
    own = [record for record in records if record.layer == layer]
    found: list[tuple[float, float | None, float | None]] = []
    best: float | None = None
    for context in sorted({record.context for record in own if record.context is not None}):
        some = [record for record in own if record.context == context]
        best = largest((best, *(_per_radius(record, record.observed.output_change) for record in some)))
        promised = [_per_radius(record, record.certified.output_change) for record in some]
        found.append((context, best, None if None in promised else largest(promised)))
    return found


def _per_radius(record: ContextRecord, change: float | None) -> float | None:
    radius = record.budget.radius
    return change / radius if change is not None and radius else None

"""Every bound against the size of the perturbation, on the layers of a model: certified over exact local change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from robust_attn.records.entry import Json
from robust_attn.records.kinds import Record, TightnessRecord, of_kind
from robust_attn.records.store import Run
from robust_attn.settings import setting
from robust_attn.tasks.task import Task
from robust_attn.types import Side
from robust_attn.views.panel import Panel, Point, line
from robust_attn.views.studies import excess_of, study_view
from robust_attn.views.view import View
from robust_attn.views.words import largest
from robust_attn.work import Work


@final
@dataclass(frozen=True)
class TightnessTask(Task):
    """Every bound against the radius of the budget."""

    radii: tuple[float, ...] = setting([1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1], "radii of the budget", above=0)
    name: ClassVar[str] = "tightness"
    kinds: ClassVar[tuple[str, ...]] = ("tightness",)

    def records(self, work: Work) -> Iterator[Record]:
        """One record per layer, radius and sample; the local constant is computed once."""
        from robust_attn.budget import BUDGETS
        from robust_attn.pipeline.checks import tightness_records
        from robust_attn.pipeline.layers import certificate_options, each_layer

        kind, options = BUDGETS[work.settings.budget.name], certificate_options(work.settings)
        yield from each_layer(work, lambda job: tightness_records(job, kind, self.radii, options))

    def findings(self, records: Sequence[Record]) -> Json | None:
        """Per layer and radius the smallest and largest excess over the samples, and the bound that certifies."""
        own = of_kind(records, TightnessRecord)
        places = sorted({(record.layer or 0, record.budget.radius or 0.0) for record in own})
        found = []
        for layer, radius in places:
            some = [record for record in own if (record.layer, record.budget.radius) == (layer, radius)]
            values = [value for record in some if (value := excess_of(record)) is not None]
            if values:
                names = sorted({record.certified.bound or "" for record in some})
                place = {"layer": layer, "radius": radius, "certified_by": names}
                found.append({**place, "smallest_excess": min(values), "largest_excess": max(values)})
        return {"certified_over_exact": found}

    def view(self, run: Run) -> View:
        """Certificates at every radius, and the excess of each bound."""
        return study_view(run, panels(of_kind(run.records, TightnessRecord)))


_APART = "Dashed: constants at the tokens. They bound infinitely small changes only, so a promise may exceed them."


def panels(records: Sequence[TightnessRecord]) -> tuple[Panel, ...]:
    """One panel over layers for the certificate, one over bounds for the first layer: largest excess over samples."""
    if not records:
        return ()
    first = records[0].layer
    layers = sorted({record.layer or 0 for record in records})
    certified = {f"layer {layer}": _largest([r for r in records if r.layer == layer], None) for layer in layers}
    own = [record for record in records if record.layer == first]
    known = [bound for record in own for bound in record.bounds if bound.side is Side.UPPER]
    apart = frozenset(bound.name for bound in known if bound.at_tokens)
    upper = dict.fromkeys(bound.name for bound in known if bound.applies or bound.at_tokens)
    bounds = {name: _largest(own, name) for name in upper}
    label, ratio = f"radius ({records[0].budget.kind})", "allowed change / (radius × local constant)"
    return (
        Panel("tightness", "Certified over exact local change", label, ratio, certified),
        Panel("tightness_bounds", f"Every bound, layer {first}", label, ratio, bounds, apart, caption=_APART),
    )


def _largest(records: Sequence[TightnessRecord], bound: str | None) -> tuple[Point, ...]:
    radii = sorted({record.budget.radius or 0.0 for record in records})
    return line((r, largest(excess_of(e, bound) for e in records if e.budget.radius == r)) for r in radii)

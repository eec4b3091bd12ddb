"""The local Lipschitz constant against the number of tokens and against their radius, by two estimators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any, ClassVar, final

from robust_attn.records.entry import Json
from robust_attn.records.kinds import ConstantRecord, Record, of_kind
from robust_attn.records.store import Run
from robust_attn.settings import setting
from robust_attn.tasks.task import Task, expect_different
from robust_attn.views.constants import constants_view
from robust_attn.views.fit import power_law
from robust_attn.views.view import View
from robust_attn.work import Work

if TYPE_CHECKING:
    from robust_attn.pipeline.jobs import CertificateOptions, LayerJob

ESTIMATORS = ("lipschitz", "released")


@final
@dataclass(frozen=True)
class LipschitzTask(Task):
    """Local Lipschitz constant against the number of tokens."""

    lengths: tuple[int, ...] = setting([4, 8, 16, 32, 64], "numbers of tokens", least=1)
    windows: int = setting(10, "windows of text per length", least=1)
    heads: bool = setting(False, "every head alone, too")
    radii: tuple[float, ...] = setting([], "radii that the tokens are stretched to", above=0)
    mask: str = setting("model", "which tokens a token attends to", words=("model", "none", "causal"))
    name: ClassVar[str] = "lipschitz"
    kinds: ClassVar[tuple[str, ...]] = ("lipschitz",)

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_different(self.lengths)

    def samples(self, asked: int) -> int:  # noqa: ARG002
        """Windows of text."""
        return self.windows

    def records(self, work: Work) -> Iterator[Record]:
        """One record per length, layer, window, head and radius."""
        from robust_attn.pipeline.layers import certificate_options, each_layer

        options = certificate_options(work.settings)
        yield from each_layer(work, lambda job: self.layer_records(job, options), lengths=self.lengths)

    def layer_records(self, job: LayerJob, options: CertificateOptions) -> Iterator[Record]:
        """One record per window, head and radius."""
        from robust_attn.pipeline.constants import constant_records, masked

        job = job if self.mask == "model" else masked(job, self.mask)
        for part in job.with_heads() if self.heads else [job]:
            for radius in self.radii or (None,):
                yield from constant_records(part, options, radius)

    def findings(self, records: Sequence[Record]) -> Json | None:
        """The exponents of both estimators against the length and, where tokens were scaled, against the radius."""
        constants = of_kind(records, ConstantRecord)
        against_radius = fits(constants, "scaled_to") if self.radii else None
        return {"exponents": fits(constants, "tokens"), "radius_exponents": against_radius}

    def view(self, run: Run) -> View:
        """What was measured, the fitted exponents, and means against length and radius."""
        return constants_view(run)


def fits(records: Sequence[ConstantRecord], against: str) -> list[dict[str, Any]]:
    """Per layer, head and whatever else is held fixed: exponents of both estimators against `against`, with 95 %
    intervals over windows, and the mean, standard deviation, smallest and largest value at each size."""
    fixed = [name for name in ("layer", "head", "tokens", "scaled_to") if name != against]
    groups: dict[tuple[Any, ...], list[ConstantRecord]] = {}
    for record in records:
        if getattr(record, against) is not None:
            groups.setdefault(tuple(getattr(record, name) for name in fixed), []).append(record)
    ordered = sorted(groups.items(), key=lambda item: tuple(-1 if part is None else part for part in item[0]))
    return [dict(zip(fixed, key, strict=True)) | _fit(group, against) for key, group in ordered]


def value_of(record: ConstantRecord, estimator: str) -> float | None:
    """The estimator's number: the attained (lower) value for `lipschitz`."""
    return record.lipschitz.lower if estimator == "lipschitz" else record.released


def _fit(records: Sequence[ConstantRecord], against: str) -> dict[str, Any]:
    found: dict[str, Any] = {"mask": records[0].mask, "windows": len({record.sample for record in records})}
    for estimator, prefix in zip(ESTIMATORS, ("", "released_"), strict=True):
        law = power_law((record.sample, getattr(record, against), value_of(record, estimator)) for record in records)
        found[f"{prefix}exponent"] = law.exponent
        found[f"{prefix}interval"] = None if law.interval is None else list(law.interval)
    sizes = sorted({getattr(record, against) for record in records})
    found["sizes"] = [
        {against: size} | _spread([record for record in records if getattr(record, against) == size]) for size in sizes
    ]
    return found


def _spread(records: Sequence[ConstantRecord]) -> dict[str, dict[str, float] | None]:
    values = {name: [v for record in records if (v := value_of(record, name)) is not None] for name in ESTIMATORS}
    return {
        name: {"mean": fmean(found), "std": pstdev(found), "min": min(found), "max": max(found)} if found else None
        for name, found in values.items()
    }

"""The local Lipschitz constant against the number of tokens and against their radius, by two estimators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, pstdev
from typing import Any

from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.experiments.fit import power_law
from robust_attn.experiments.released import released_estimate
from robust_attn.pipeline import CertificateOptions, LayerJob, head_job, layer_estimate
from robust_attn.record import finite, heading, lipschitz_fields
from robust_attn.views.panel import Panel, line

Record = Mapping[str, Any]
ESTIMATORS = ("lipschitz", "released")


@dataclass(frozen=True)
class LipschitzStudy:
    """Which constants are measured: also those of single heads, of tokens scaled to `radii`, under another mask.

    `mask` None leaves each layer its own. The tokens are always those that the model itself produces.
    """

    heads: bool = False
    radii: tuple[float, ...] = ()
    mask: Mask | None = None

    def records(self, job: LayerJob, options: CertificateOptions) -> Iterator[dict[str, Any]]:
        """One record per window, head and radius."""
        if self.mask is not None:
            job = replace(job, layer=replace(job.layer, mask=self.mask))
        parts = [job]
        if self.heads and job.layer.heads > 1:
            parts += [head_job(job, head) for head in range(job.layer.heads)]
        for part in parts:
            for radius in self.radii or (None,):
                yield from _records(part, options, radius)


def scaled_to(measure: TokenMeasure, radius: float) -> TokenMeasure:
    """The same measure with every sample stretched so that its largest token has norm `radius`."""
    return measure.with_points(measure.points * (radius / measure.radius.clamp_min(1e-300))[..., None, None])


def fits(records: Sequence[Record], against: str = "tokens") -> list[dict[str, Any]]:
    """Per layer, head and whatever else is held fixed: exponents of both estimators against `against`, with 95 %
    intervals over windows, and the mean, standard deviation, smallest and largest value at each size."""
    fixed = [name for name in ("layer", "head", "tokens", "scaled_to") if name != against]
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        if record[against] is not None:
            groups.setdefault(tuple(record[name] for name in fixed), []).append(record)
    ordered = sorted(groups.items(), key=lambda item: tuple(-1 if part is None else part for part in item[0]))
    return [dict(zip(fixed, key, strict=True)) | _fit(group, against) for key, group in ordered]


def panels(records: Sequence[Record]) -> tuple[Panel, ...]:
    """Means against the number of tokens (at the first radius) and, where tokens were scaled, against the radius."""
    whole = [record for record in records if record["head"] is None]
    if not whole:
        return ()
    first = whole[0]["scaled_to"]
    longest = max(record["tokens"] for record in whole)
    against_length = [record for record in whole if record["scaled_to"] == first]
    against_radius = [record for record in whole if record["tokens"] == longest and first is not None]
    model = f"{whole[0]['model']} ({whole[0]['weights'].split(':')[0]})"
    return tuple(
        Panel(name, f"{model}: local Lipschitz constant", label, "mean over windows", _lines(chosen, field))
        for name, label, chosen, field in (
            ("lipschitz_tokens", "tokens", against_length, "tokens"),
            ("lipschitz_radius", f"radius of the tokens, n = {longest}", against_radius, "scaled_to"),
        )
        if len({record[field] for record in chosen}) > 1
    )


def value_of(record: Record, estimator: str) -> float | None:
    """The estimator's number: the attained (lower) value for `lipschitz`."""
    return record["lipschitz"]["lower"] if estimator == "lipschitz" else record[estimator]


def _records(job: LayerJob, options: CertificateOptions, radius: float | None) -> Iterator[dict[str, Any]]:
    inputs = job.inputs if radius is None else scaled_to(job.inputs, radius)
    part = replace(job, inputs=inputs)
    estimate = layer_estimate(part, inputs.masses, options, split=False)
    released = released_estimate(job.layer.to(inputs.points.dtype), inputs)
    for sample in range(inputs.points.shape[0]):
        yield {
            **heading(job.subject, sample, inputs.length),
            "task": "lipschitz",
            "mask": str(job.layer.mask),
            "radius": finite(float(inputs.radius[sample])),
            "scaled_to": radius,
            "lipschitz": lipschitz_fields(estimate, sample),
            "released": finite(float(released[sample])),
        }


def _fit(records: Sequence[Record], against: str) -> dict[str, Any]:
    found: dict[str, Any] = {"mask": records[0]["mask"], "windows": len({record["sample"] for record in records})}
    for estimator, prefix in zip(ESTIMATORS, ("", "released_"), strict=True):
        law = power_law((record["sample"], record[against], value_of(record, estimator)) for record in records)
        found[f"{prefix}exponent"] = law.exponent
        found[f"{prefix}interval"] = None if law.interval is None else list(law.interval)
    sizes = sorted({record[against] for record in records})
    found["sizes"] = [
        {against: size} | _spread([record for record in records if record[against] == size]) for size in sizes
    ]
    return found


def _spread(records: Iterable[Record]) -> dict[str, dict[str, float] | None]:
    records = list(records)
    values = {name: [v for record in records if (v := value_of(record, name)) is not None] for name in ESTIMATORS}
    return {
        name: {"mean": fmean(found), "std": pstdev(found), "min": min(found), "max": max(found)} if found else None
        for name, found in values.items()
    }


def _lines(records: Sequence[Record], field: str) -> dict[str, tuple[tuple[float, float], ...]]:
    lines = {}
    for layer in sorted({record["layer"] for record in records}):
        for estimator, label in zip(ESTIMATORS, ("|D f|", "released"), strict=True):
            chosen = [record for record in records if record["layer"] == layer]
            means = []
            for size in sorted({record[field] for record in chosen}):
                found = [v for r in chosen if r[field] == size and (v := value_of(r, estimator)) is not None]
                means.append((size, fmean(found) if found else None))
            lines[f"layer {layer}, {label}"] = line(means)
    return lines

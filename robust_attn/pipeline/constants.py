"""Local Lipschitz constants of a layer as records, by two estimators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.pipeline.jobs import CertificateOptions, LayerJob, layer_estimate
from robust_attn.pipeline.parts import constant_part
from robust_attn.pipeline.released import released_estimate
from robust_attn.records.kinds import ConstantRecord


def constant_records(job: LayerJob, options: CertificateOptions, radius: float | None) -> Iterator[ConstantRecord]:
    """One record per sample; with a radius the tokens are stretched to it first."""
    inputs = job.inputs if radius is None else scaled_to(job.inputs, radius)
    estimate = layer_estimate(replace(job, inputs=inputs), inputs.masses, options, split=False)
    released = released_estimate(job.layer.to(inputs.points.dtype), inputs)
    for sample in range(job.samples):
        yield ConstantRecord(
            **job.subject.heading(sample, inputs.length),
            mask=str(job.layer.mask),
            radius=float(inputs.radius[sample]),
            scaled_to=radius,
            lipschitz=constant_part(estimate, sample),
            released=float(released[sample]),
        )


def masked(job: LayerJob, mask: str) -> LayerJob:
    """The same layer under another mask; the tokens are those that the model itself produces."""
    return replace(job, layer=replace(job.layer, mask=Mask(mask)))


def scaled_to(measure: TokenMeasure, radius: float) -> TokenMeasure:
    """The same measure with every sample stretched so that its largest token has norm `radius`."""
    return measure.with_points(measure.points * (radius / measure.radius.clamp_min(1e-300))[..., None, None])

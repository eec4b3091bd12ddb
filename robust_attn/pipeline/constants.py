"""Local Lipschitz constants of a layer as records, by two estimators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.pipeline.jobs import CertificateOptions, LayerJob, layer_estimate
from robust_attn.pipeline.parts import constant_part
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


def released_estimate(layer: AttentionLayer, measure: TokenMeasure) -> Float[Tensor, "*batch"]:
    """sqrt(|D_X^T f(X)|), Frobenius norms, one number per sample.

    It is the fixed point, reached in one step, of a power iteration that takes element [0] of `torch.func.jvp`, the
    value f(X), where the tangent D_X f v is element [1] (vcastin/how-smooth-is-attention, commit 60da456). A multiple
    c f gives c times the value, as for |D_X f|; unlike |D_X f| it changes when a constant is added to f.
    """
    jacobian = layer.linearize(measure)
    return jacobian.vjp(jacobian.value).flatten(-2).norm(dim=-1).sqrt()


def masked(job: LayerJob, mask: str) -> LayerJob:
    """The same layer under another mask; the tokens are those that the model itself produces."""
    return replace(job, layer=replace(job.layer, mask=Mask(mask)))


def scaled_to(measure: TokenMeasure, radius: float) -> TokenMeasure:
    """The same measure with every sample stretched so that its largest token has norm `radius`."""
    return measure.with_points(measure.points * (radius / measure.radius.clamp_min(1e-300))[..., None, None])

"""No adapter is trusted: its layers are compared with what the real model computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from robust_attn.attention.measure import TokenMeasure
from robust_attn.models.adapter import AttachedLayer
from robust_attn.models.hooks import watch
from robust_attn.types import UserError

TOLERANCES: Mapping[torch.dtype, float] = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 5e-2}
"""Largest relative difference, max|difference| / max|output|, between an adapter's layer and the model's own."""
COARSE = frozenset({torch.bfloat16})
"""Precisions in which nothing can be searched or compared: such weights are looked at in a finer one, unrounded."""


def relative_differences(
    model: nn.Module, attached: Sequence[AttachedLayer], batch: Tensor | Mapping[str, Any]
) -> tuple[float, ...]:
    """max|difference| / max|output| of every layer, from one pass of the whole model on the batch."""
    sources, sinks = [layer.source for layer in attached], [layer.sink for layer in attached]
    watched = watch(model, batch, sources=sources, sinks=sinks)
    return tuple(
        relative_difference(layer.weights(TokenMeasure.uniform(points)), output)
        for layer, points, output in zip(attached, watched.inputs, watched.outputs, strict=True)
    )


def relative_difference(ours: Tensor, theirs: Tensor) -> float:
    """max|ours - theirs| / max|theirs|; NaN if anything is not finite."""
    difference = (ours.double() - theirs.double()).abs().max()
    scale = theirs.double().abs().max().clamp_min(torch.finfo(torch.float64).tiny)
    return float(difference / scale)


def checked_differences(
    model: nn.Module, attached: Sequence[AttachedLayer], batch: Tensor, dtype: torch.dtype, *, rounds: bool = False
) -> tuple[float, ...]:
    """The relative differences, all within the tolerance of the precision; otherwise the model is refused.

    A model that `rounds` to float32 inside is not nearer to its layers than that in any precision.
    """
    tolerance = max(TOLERANCES[dtype], TOLERANCES[torch.float32] if rounds else 0.0)
    differences = relative_differences(model, attached, batch)
    for index, difference in enumerate(differences):
        if not difference <= tolerance:  # NaN is refused too
            raise UserError(
                f"layer {index} taken out of the model differs from the model's own forward pass by "
                f"{difference:.1e} relative, more than {tolerance:.0e} in {dtype}; refused"
            )
    return differences

"""How far from the origin the norm in front of a layer lets tokens be."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from robust_attn.models.generic.events import CallEvent, LinearEvent, Log
from robust_attn.models.normalization import layer_norm_radius, rms_norm_radius

SIZE, AGREEMENT = 1e4, 1e-5
"""Vectors of that size make the epsilon of a norm negligible; norms compute in float32 at the coarsest."""


def norm_before(log: Log, call: CallEvent, source: LinearEvent) -> nn.Module | None:
    """The last norm before the call whose output is the layer's input, None without one."""
    for event in reversed(log.norms):
        earlier = event.order < source.order < call.order and event.made.shape == source.given.shape
        if earlier and torch.equal(event.made, source.given):
            return event.module
    return None


def norm_radius(module: nn.Module, dtype: torch.dtype) -> float | None:
    """The radius of a LayerNorm or RMSNorm by what it computes, None if it is neither.

    Its gain may be the stored weight, one more than that (Gemma), or nothing at all; `dtype` is what it computes in.
    """
    norm: Any = module
    stored: Tensor | None = getattr(norm, "weight", None)
    bias: Tensor | None = getattr(norm, "bias", None)
    width = _width(norm, stored)
    if width is None:
        return None
    gains = [torch.ones(width, dtype=dtype)] if stored is None else [stored.detach(), 1 + stored.detach()]
    for gain in gains:
        for centred in (True, False):
            if _computes(norm, gain, bias, centred=centred):
                if centred:
                    return layer_norm_radius(gain, bias)
                shift = 0.0 if bias is None else float(bias.detach().double().norm())
                return rms_norm_radius(gain) + shift * (1 + AGREEMENT)
    return None


def _width(norm: Any, stored: Tensor | None) -> int | None:
    if stored is not None:
        return int(stored.shape[0]) if stored.ndim == 1 else None
    shape = getattr(norm, "normalized_shape", None)
    return math.prod(shape) if shape is not None else None


def _computes(norm: Any, gain: Tensor, bias: Tensor | None, *, centred: bool) -> bool:
    """Whether the module is the norm with this gain: compared on vectors with a mean of their own."""
    generator = torch.Generator().manual_seed(0)
    vectors = SIZE * (1 + torch.randn(1, 2, len(gain), generator=generator, dtype=torch.float64)).to(gain.device)
    deviation = vectors - vectors.mean(-1, keepdim=True) if centred else vectors
    expected = deviation / deviation.square().mean(-1, keepdim=True).sqrt() * gain.double()
    expected = expected if bias is None else expected + bias.detach().double()
    try:
        with torch.no_grad():
            found = norm(vectors.to(gain.dtype)).double()
    except (RuntimeError, TypeError, ValueError, IndexError):
        return False
    tolerance = max(AGREEMENT, 8 * torch.finfo(gain.dtype).eps) * float(expected.abs().max())
    return found.shape == expected.shape and float((found - expected).abs().max()) <= tolerance

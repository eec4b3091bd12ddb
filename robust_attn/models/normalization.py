"""How far from the origin the normalisation in front of an attention layer lets a token be."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

ROUNDING_UNITS = 8
"""Normalised tokens are computed in floating point: radii are widened by this many units in the last place."""


def layer_norm_radius(weight: Float[Tensor, " d"], bias: Float[Tensor, " d"] | None) -> float:
    """sqrt(d) max|alpha| + |beta|: normalised vectors have norm at most sqrt(d), alpha stretches, beta shifts them."""
    shift = 0.0 if bias is None else float(bias.detach().double().norm())
    return _widened(_stretched_sphere(weight) + shift, weight.dtype)


def rms_norm_radius(weight: Float[Tensor, " d"]) -> float:
    """sqrt(d) max|alpha|, widened by float32 rounding at least: Llama's RMSNorm computes in float32 in every model."""
    coarse = weight.dtype if torch.finfo(weight.dtype).eps > torch.finfo(torch.float32).eps else torch.float32
    return _widened(_stretched_sphere(weight), coarse)


def _stretched_sphere(weight: Float[Tensor, " d"]) -> float:
    return math.sqrt(weight.shape[-1]) * float(weight.detach().double().abs().max())


def _widened(radius: float, dtype: torch.dtype) -> float:
    return radius * (1 + ROUNDING_UNITS * torch.finfo(dtype).eps)

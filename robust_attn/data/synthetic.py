"""Random points with a known law, drawn in float64 from the generator given, so every precision sees the same ones."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def gaussian(
    samples: int, tokens: int, width: int, generator: torch.Generator, dtype: torch.dtype, *, scale: float = 1.0
) -> Float[Tensor, "samples tokens width"]:
    """Independent standard normal coordinates, times `scale`."""
    draws = torch.randn(samples, tokens, width, generator=generator, dtype=torch.float64)
    return (draws * scale).to(dtype)


def sphere(
    samples: int, tokens: int, width: int, generator: torch.Generator, dtype: torch.dtype, *, radius: float
) -> Float[Tensor, "samples tokens width"]:
    """Independent points, uniform on the sphere of the radius around the origin."""
    draws = torch.randn(samples, tokens, width, generator=generator, dtype=torch.float64)
    points: Tensor = draws / draws.norm(dim=-1, keepdim=True) * radius
    return points.to(dtype)

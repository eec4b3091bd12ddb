"""Where tensors are: draws that come out the same on every device, and devices that have no float64."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

WITHOUT_FLOAT64 = ("mps",)


def standard_normal(shape: Sequence[int], generator: torch.Generator, like: Tensor) -> Tensor:
    """Standard normal numbers, drawn where the generator is and handed over to the device and precision of `like`.

    A generator of the CPU draws the same numbers whatever device and precision, so a seed means the same everywhere.
    """
    drawn = like.dtype if generator.device.type in WITHOUT_FLOAT64 else torch.float64
    return torch.randn(tuple(shape), generator=generator, dtype=drawn, device=generator.device).to(like)


def able(device: torch.device, dtype: torch.dtype) -> torch.device:
    """The device itself, or the CPU where the device cannot compute in that precision."""
    return torch.device("cpu") if dtype == torch.float64 and device.type in WITHOUT_FLOAT64 else device

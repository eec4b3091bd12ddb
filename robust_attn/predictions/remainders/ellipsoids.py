"""Ellipsoids {m * u: |u| <= 1} with given half axes m."""

from __future__ import annotations

import torch
from torch import Tensor


def together(*axes: Tensor) -> Tensor:
    """Half axes of an ellipsoid that contains the sum of the given ones.

    (x + z)^2 <= (1 + 1/t) x^2 + (1 + t) z^2 for t > 0, with one t for all entries.
    """
    total = axes[0]
    for more in axes[1:]:
        left, right = float(total.norm()), float(more.norm())
        if right == 0 or left == 0:
            total = total if right == 0 else more
            continue
        ratio = left / right
        total = ((1 + 1 / ratio) * total.square() + (1 + ratio) * more.square()).sqrt()
    return total


def lifted(size: Tensor) -> Tensor:
    """The sizes with those near zero lifted, to divide by: weights may be any positive numbers."""
    largest = float(size.max())
    return size.clamp(min=1e-6 * largest) if largest > 0 else torch.ones_like(size)

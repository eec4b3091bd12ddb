"""Who may attend to whom."""

from __future__ import annotations

from enum import StrEnum

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class Mask(StrEnum):
    """NONE: everybody sees everybody. CAUSAL: an atom sees those whose position is not later than its own.

    Padding is not a kind of mask here: a padded token is an atom of mass zero, which nobody sees under either mask.
    """

    NONE = "none"
    CAUSAL = "causal"


def visible(
    mask: Mask, positions: Int[Tensor, "*batch n"], masses: Float[Tensor, "*batch n"], rows: slice = slice(None)
) -> Bool[Tensor, "*batch _ n"]:
    """Entry (i, j) says whether row i attends to atom j; copies of a token share its position and see each other."""
    seen = (masses > 0)[..., None, :]
    row_positions = positions[..., rows, None]
    if mask is Mask.NONE:
        return seen.expand(*row_positions.shape[:-1], positions.shape[-1])
    return seen & (positions[..., None, :] <= row_positions)


def log_weight(
    mask: Mask, positions: Int[Tensor, "*batch n"], masses: Float[Tensor, "*batch n"], rows: slice = slice(None)
) -> Float[Tensor, "*batch _ n"]:
    """log m_j where atom j is visible to row i, minus infinity elsewhere: what is added to the logits."""
    logs = masses.log()[..., None, :]
    if mask is Mask.NONE:
        return logs
    hidden = positions[..., None, :] > positions[..., rows, None]
    return logs.expand(hidden.shape).masked_fill(hidden, -torch.inf)

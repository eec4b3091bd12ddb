"""Ball settings for tests of global bounds."""

import torch

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.bounds.setting import BallSetting
from robust_attn.budget import Budget, Frobenius
from robust_attn.spectral.norms import head_norms


def single_head_ball(
    a: float,
    *,
    length: int,
    radius: float = 1.0,
    value: float = 1.0,
    mask: Mask = Mask.NONE,
    bias: float = 0.0,
    masses: list[float] | None = None,
    budget: Budget | None = None,
) -> BallSetting:
    """One head in one dimension with A = a, V = value, on the ball of `radius`; unit Frobenius budget unless given."""
    layer = AttentionLayer.single_head(_double([[a]]), _double([[value]]), _double([bias]), mask)
    points = torch.zeros(length, 1).double()
    measure = TokenMeasure.uniform(points)
    if masses is not None:
        measure = TokenMeasure.weighted(points, _double(masses))
    return BallSetting.of(layer, head_norms(layer), measure, budget or Frobenius(1.0), radius=radius)


def _double(values: list[float] | list[list[float]]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)

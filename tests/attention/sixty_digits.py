"""How far a layer in float64 is from itself in arithmetic of sixty digits."""

import torch

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.soundness.reference import Reference


def largest_error(layer: AttentionLayer, measure: TokenMeasure) -> float:
    exact = Reference.of(layer, measure)
    rows = [[sum(exact.numbers.ends(number)) / 2 for number in row] for row in exact.outputs()]
    difference = torch.tensor(rows, dtype=torch.float64) - layer(measure)
    return float(difference[measure.present].abs().max())

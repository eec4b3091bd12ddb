"""Affine operations against matrices."""

import torch

from robust_attn.predictions.affine import Rivals
from tests.cases import generator
from tests.predictions.cases import normal


def test_margins_of_one_class_without_a_matrix():
    logits, unit = normal(generator(0), 5), torch.eye(5, dtype=torch.float64)
    matrix = torch.stack([unit[2] - unit[other] for other in (0, 1, 3, 4)])
    torch.testing.assert_close(Rivals(2).value(logits), matrix @ logits)
    tangents = normal(generator(1), 3, 5)
    torch.testing.assert_close(Rivals(2).first([logits], [tangents]), tangents @ matrix.T)
    half = normal(generator(2), 5).abs()
    low, high = Rivals(2).interval([logits - half], [logits + half])
    torch.testing.assert_close((high - low) / 2, matrix.abs() @ half)

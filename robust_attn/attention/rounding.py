"""What rounding may do to an attention layer, to first order in the unit of its precision.

Inner products of length l err by l units times the norms. A logit that errs by e changes an attention weight by a
factor of at most exp(2 e): where e is not small, the weights that a computer finds say nothing about the exact ones.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure

KNOWN_LOGITS = 1e-6
"""Logits that err by no more than this leave attention weights known well enough to make bounds of them."""
GROWTH = 8.0
"""A bound made of attention weights, their means and deviations grows by at most 1 + GROWTH e: it is at most of the
fourth power in weights that err by 1 + 2 e, and a deviation from the mean is least for the exact mean. Seen: 2 e."""


UNKNOWN_ATTENTION = "logits are too large: rounding leaves the attention weights unknown"


def logit_error(layer: AttentionLayer, measure: TokenMeasure) -> Float[Tensor, "*batch heads"]:
    """How far rounding may take any logit of a head from the exact one."""
    unit, radius = torch.finfo(layer.dtype).eps, measure.radius[..., None]
    groups = layer.head_groups
    query = layer.query.norm(dim=(-2, -1)) * radius + layer.query_bias.norm(dim=-1)
    key = layer.key[groups].norm(dim=(-2, -1)) * radius + layer.key_bias[groups].norm(dim=-1)
    stretch = 1.0 if layer.rotary is None else layer.rotary.scaling**2
    return unit * (2 * layer.width + 2 * layer.query.shape[1] + 10) * layer.scale * stretch * query * key


def attention_growth(layer: AttentionLayer, measure: TokenMeasure) -> Float[Tensor, "*batch"]:
    """By what part a bound made of the attention weights at the measure must grow; infinite where they are unknown.

    Not a number where the layer or the measure is not one.
    """
    error = logit_error(layer, measure).amax(-1)
    return torch.where(error > KNOWN_LOGITS, torch.inf, GROWTH * error)


def evaluation_error(layer: AttentionLayer, measure: TokenMeasure) -> Float[Tensor, "*batch"]:
    """How far rounding may take any one row of layer(measure) from the exact value.

    A logit error e changes attention weights by 2e in total, so a row by 4e times the largest value; sums over tokens,
    heads and the output projection add their lengths.
    """
    unit = torch.finfo(layer.dtype).eps
    value = layer.value[layer.head_groups].norm(dim=(-2, -1)) * measure.radius[..., None]
    value = value * layer.output.norm(dim=(-2, -1))
    lengths = measure.length + layer.width + 2 * layer.value.shape[1] + layer.heads + 20
    rows = (value * (4 * logit_error(layer, measure) + unit * lengths)).sum(-1)
    return rows + 2 * unit * layer.offset.norm()

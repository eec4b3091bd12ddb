"""torch's own multi-head attention as an AttentionLayer."""

from __future__ import annotations

from typing import Any

from torch import nn

from robust_attn.attention.layer import AttentionLayer
from robust_attn.models.adapter import Affine, attention_layer
from robust_attn.types import UserError


def from_multihead_attention(module: nn.MultiheadAttention, *, input_radius: float | None = None) -> AttentionLayer:
    """Self-attention module(x, x, x) without a mask, in evaluation mode; weights are views of the module's.

    `input_radius`, if known, is a radius that no input leaves. For another mask: dataclasses.replace(layer, mask=...).
    """
    expect_multihead(module)
    if module.in_proj_weight is None:
        raise UserError(
            "keys or values of this nn.MultiheadAttention have a width of their own (kdim, vdim): cross attention"
        )
    if module.bias_k is not None or module.bias_v is not None or module.add_zero_attn:
        raise UserError("an nn.MultiheadAttention with add_bias_kv or add_zero_attn has one more key than tokens")
    weights, stored = module.in_proj_weight.detach().chunk(3), module.in_proj_bias
    biases: tuple[Any, ...] = (None, None, None) if stored is None else stored.detach().chunk(3)
    query, key, value = (Affine(weight, bias) for weight, bias in zip(weights, biases, strict=True))
    return attention_layer(
        query,
        key,
        value,
        Affine.of(module.out_proj),
        heads=module.num_heads,
        groups=module.num_heads,
        scale=module.head_dim**-0.5,
        input_radius=input_radius,
    )


def expect_multihead(given: object) -> None:
    """A UserError that says what to do if something else was given."""
    if not isinstance(given, nn.MultiheadAttention):
        raise UserError(
            f"expected an nn.MultiheadAttention, got {type(given).__name__}; a whole model is taken by wrap(module)"
        )

"""A small stack of torch's own multi-head attention: no transformers, random weights only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from robust_attn.models.adapter import Adapter, AttachedLayer, TakenOut
from robust_attn.models.hooks import Spot
from robust_attn.models.multihead import from_multihead_attention
from robust_attn.models.normalization import layer_norm_radius
from robust_attn.models.reading import Reading

KNUTH = 2654435761
"""Multiplicative hashing: spreads neighbouring token ids over the table."""


@dataclass(frozen=True)
class ToyConfig:
    """Sizes of the toy model."""

    layers: int = 2
    width: int = 16
    heads: int = 2
    buckets: int = 1024
    vocab_size: int = 30522
    model_type: ClassVar[str] = "toy"

    def __post_init__(self) -> None:
        if min(self.layers, self.width, self.heads, self.buckets, self.vocab_size) < 1 or self.width % self.heads:
            raise ValueError(f"sizes must be positive and heads must divide the width, got {self}")


class ToyTransformer(nn.Module):
    """x + attention(norm(x)), repeated, on hashed token embeddings plus sinusoidal positions."""

    def __init__(self, config: ToyConfig) -> None:
        super().__init__()
        self.config = config
        self.table = nn.Parameter(torch.randn(config.buckets, config.width))
        self.norms = nn.ModuleList(nn.LayerNorm(config.width) for _ in range(config.layers))
        self.attentions = nn.ModuleList(
            nn.MultiheadAttention(config.width, config.heads, batch_first=True) for _ in range(config.layers)
        )
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.normal_(parameter, std=0.1)

    def forward(self, ids: Int[Tensor, "samples n"]) -> Float[Tensor, "samples n d"]:
        """Token ids that share a bucket share an embedding."""
        hidden = self.table[(ids * KNUTH) % 2**32 % self.config.buckets]
        hidden = hidden + _sinusoids(ids.shape[-1], self.config.width).to(hidden)
        for norm, attention in zip(self.norms, self.attentions, strict=True):
            normal = norm(hidden)
            hidden = hidden + attention(normal, normal, normal, need_weights=False)[0]
        return hidden


@dataclass(frozen=True)
class ToyAdapter(Adapter):
    """The layer is a whole nn.MultiheadAttention, fed by its own norm; sinusoids have no end."""

    def taken_out(self, model: nn.Module) -> TakenOut:
        """One layer per block."""
        whole: Any = model
        pairs = zip(whole.attentions, whole.norms, strict=True)
        attached = tuple(
            AttachedLayer(
                from_multihead_attention(attention, input_radius=layer_norm_radius(norm.weight, norm.bias)),
                source=Spot(attention),
                sink=Spot(attention),
            )
            for attention, norm in pairs
        )
        return TakenOut(attached, Reading(whole.config.vocab_size))


def _sinusoids(length: int, width: int) -> Float[Tensor, "n d"]:
    rates = torch.exp(-math.log(10000.0) * torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)[:, :width]

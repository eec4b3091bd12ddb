"""What an architecture has to say about itself: where its attention layers are and what their weights mean."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.rotary import Rotary


@dataclass(frozen=True, eq=False)
class AttachedLayer:
    """An attention layer as plain weights, and the modules of the real model where the same map can be watched.

    The first input of `source` is the layer's input; the (first) output of `sink` is the layer's output.
    """

    weights: AttentionLayer
    source: nn.Module
    sink: nn.Module


class Adapter(ABC):
    """Takes the attention layers out of one architecture, which is known by the `model_type` of its configuration."""

    architecture: ClassVar[str]
    construction: ClassVar[Mapping[str, Any]]
    """Keyword arguments that the model class wants beside its configuration."""

    @abstractmethod
    def layers(self, model: nn.Module) -> tuple[AttachedLayer, ...]:
        """The attention layers in order; their tensors are detached views of the model's parameters."""

    @abstractmethod
    def max_tokens(self, config: Any) -> int | None:
        """The largest number of tokens that the model has positions for, None without a limit."""


@dataclass(frozen=True, eq=False)
class Affine:
    """x -> weight x + bias, with the rows of `weight` as outputs (the layout of nn.Linear)."""

    weight: Float[Tensor, "out in"]
    bias: Float[Tensor, " out"] | None

    @classmethod
    def of(cls, linear: Any) -> Affine:
        """The weights of an nn.Linear, detached."""
        return cls(linear.weight.detach(), None if linear.bias is None else linear.bias.detach())


def attention_layer(
    query: Affine,
    key: Affine,
    value: Affine,
    output: Affine,
    *,
    heads: int,
    groups: int,
    scale: float,
    mask: Mask = Mask.NONE,
    rotary: Rotary | None = None,
    input_radius: float | None = None,
) -> AttentionLayer:
    """The layer of four projections whose rows (columns of the output projection) are `heads` or `groups` blocks."""
    return AttentionLayer(
        query=query.weight.view(heads, -1, query.weight.shape[1]),
        query_bias=_bias(query).view(heads, -1),
        key=key.weight.view(groups, -1, key.weight.shape[1]),
        key_bias=_bias(key).view(groups, -1),
        value=value.weight.view(groups, -1, value.weight.shape[1]),
        output=output.weight.view(output.weight.shape[0], heads, -1).permute(1, 0, 2),
        offset=_offset(value, output, repeats=heads // groups, groups=groups),
        scale=float(scale),
        mask=mask,
        rotary=rotary,
        input_radius=input_radius,
    )


def _bias(affine: Affine) -> Float[Tensor, " out"]:
    return torch.zeros_like(affine.weight[:, 0]) if affine.bias is None else affine.bias


def _offset(value: Affine, output: Affine, *, repeats: int, groups: int) -> Float[Tensor, " out"]:
    """W_O b_V + b_O, summed in float64: attention weights sum to one, so the bias of the values passes unchanged."""
    value_bias = _bias(value).double().view(groups, -1).repeat_interleave(repeats, dim=0).flatten()
    offset: Tensor = output.weight.double() @ value_bias + _bias(output).double()
    return offset.to(output.weight.dtype)

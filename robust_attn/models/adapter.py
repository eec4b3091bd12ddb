"""What an adapter finds in a model: its attention layers as plain weights, and what the model reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask, Visibility
from robust_attn.attention.rotary import Rotation
from robust_attn.models.hooks import Spot
from robust_attn.models.reading import Reading


@dataclass(frozen=True, eq=False)
class AttachedLayer:
    """An attention layer as plain weights, and the places of the real model where the same map can be watched.

    The first input of `source` is the layer's input; the (first) output of `sink` is the layer's output.
    """

    weights: AttentionLayer
    source: Spot
    sink: Spot


@dataclass(frozen=True, eq=False)
class TakenOut:
    """The attention layers of a model in order; their tensors are detached views of its parameters where they can be.

    `rounds` says that the model rounds to float32 inside, so that it differs by that much from its own layers; `note`
    is what a reader must know, such as layers that could not be taken out, and why.
    """

    attached: tuple[AttachedLayer, ...]
    reading: Reading
    rounds: bool = False
    note: str | None = None


class Adapter(ABC):
    """Takes the attention layers out of models."""

    @abstractmethod
    def taken_out(self, model: nn.Module) -> TakenOut:
        """The layers; the model is left as it was found."""


@dataclass(frozen=True, eq=False)
class Affine:
    """x -> weight x + bias, with the rows of `weight` as outputs (the layout of nn.Linear)."""

    weight: Float[Tensor, "out in"]
    bias: Float[Tensor, " out"] | None

    @classmethod
    def of(cls, linear: Any) -> Affine:
        """The weights of an nn.Linear, detached."""
        return cls(linear.weight.detach(), None if linear.bias is None else linear.bias.detach())

    def in_blocks(self, blocks: int) -> Float[Tensor, "blocks width in"]:
        """The rows as equal blocks, a view."""
        return self.weight.unflatten(0, (blocks, -1))

    def bias_in_blocks(self, blocks: int) -> Float[Tensor, "blocks width"]:
        """The bias as equal blocks, zeros where there is none."""
        bias = torch.zeros_like(self.weight[:, 0]) if self.bias is None else self.bias
        return bias.unflatten(0, (blocks, -1))


def attention_layer(
    query: Affine,
    key: Affine,
    value: Affine,
    output: Affine,
    *,
    heads: int,
    groups: int,
    scale: float,
    mask: Visibility = Mask.NONE,
    rotary: Rotation | None = None,
    input_radius: float | None = None,
) -> AttentionLayer:
    """The layer of four projections whose rows (columns of the output projection) are `heads` or `groups` blocks."""
    return AttentionLayer(
        query=query.in_blocks(heads),
        query_bias=query.bias_in_blocks(heads),
        key=key.in_blocks(groups),
        key_bias=key.bias_in_blocks(groups),
        value=value.in_blocks(groups),
        output=output.weight.unflatten(1, (heads, -1)).permute(1, 0, 2),
        offset=_offset(value, output, repeats=heads // groups, groups=groups),
        scale=float(scale),
        mask=mask,
        rotary=rotary,
        input_radius=input_radius,
    )


def _offset(value: Affine, output: Affine, *, repeats: int, groups: int) -> Float[Tensor, " out"]:
    """W_O b_V + b_O, summed in float64: attention weights sum to one, so the bias of the values passes unchanged."""
    value_bias = value.bias_in_blocks(groups).double().repeat_interleave(repeats, dim=0).flatten()
    offset: Tensor = output.weight.double() @ value_bias + output.bias_in_blocks(1)[0].double()
    return offset.to(output.weight.dtype)

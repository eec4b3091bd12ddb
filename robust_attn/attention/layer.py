"""A multi-head attention layer as plain weights: the map from a token measure to its output, torch only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.extras import PositionBias, Sinks
from robust_attn.attention.mask import Mask, Visibility
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.places import able
from robust_attn.attention.rotary import Rotation

if TYPE_CHECKING:
    from robust_attn.attention.jacobian import LayerJacobian

WEIGHTS = ("query", "query_bias", "key", "key_bias", "value", "output", "offset")
EXTRAS = ("position_bias", "sinks")


@dataclass(frozen=True, eq=False)
class AttentionLayer:
    """f(X)_i = offset + sum_h W_O^h sum_j P^h_ij W_V^h x_j with P^h_ij proportional to m_j exp(s^h_ij).

    The logits are s_ij = scale * <W_Q x_i + b_Q, W_K x_j + b_K>, both sides rotated by position if `rotary` is given;
    `scale` may have either sign, or be zero. `position_bias` adds a table of numbers by positions to the logits;
    `sinks` are one more key per head that is no token, so that attention to tokens sums to less than one.
    Heads share keys and values in groups (GQA): head h uses group h // (heads / groups). Biases of the values and of
    the output projection shift every output by a constant, because attention weights sum to one: that is `offset`
    (a sink's value is then counted from the bias of the values).
    `input_radius`, if known, is a radius that no input of this layer leaves (the normalisation in front of it).
    """

    query: Float[Tensor, "heads width d"]
    query_bias: Float[Tensor, "heads width"]
    key: Float[Tensor, "groups width d"]
    key_bias: Float[Tensor, "groups width"]
    value: Float[Tensor, "groups value_width d"]
    output: Float[Tensor, "heads out value_width"]
    offset: Float[Tensor, "out"]
    scale: float
    mask: Visibility = Mask.NONE
    rotary: Rotation | None = None
    position_bias: PositionBias | None = None
    sinks: Sinks | None = None
    input_radius: float | None = None

    def __post_init__(self) -> None:
        if self.heads % self.groups:
            raise ValueError(f"{self.heads} heads cannot share {self.groups} key/value groups evenly")
        for name, heads in self._extra_heads.items():
            if heads != self.heads:
                raise ValueError(f"{name} for {heads} heads do not fit a layer of {self.heads}")
        # Made here and not at first use: inside a torch.func transform the kept copy would belong to the transform.
        _ = self.stacked_projections, self.stacked_output

    @classmethod
    def single_head(
        cls,
        A: Float[Tensor, "d d"],
        V: Float[Tensor, "out d"],
        bias: Float[Tensor, "d"] | None = None,
        mask: Visibility = Mask.NONE,
    ) -> AttentionLayer:
        """The layer of the paper, f(X)_i = V sum_j softmax_j(<A x_i + bias, x_j>) x_j, for d x d matrices A."""
        d = A.shape[-1]
        identity = torch.eye(d, dtype=A.dtype, device=A.device)
        return cls(
            query=A[None],
            query_bias=A.new_zeros(1, d) if bias is None else bias[None],
            key=identity[None],
            key_bias=A.new_zeros(1, d),
            value=identity[None],
            output=V[None],
            offset=A.new_zeros(V.shape[0]),
            scale=1.0,
            mask=mask,
        )

    @property
    def logit_scale(self) -> float:
        """The size of what multiplies <W_Q x_i + b_Q, W_K x_j + b_K>: |scale|, and what a rotation stretches both by.

        Norms of logits and of their slopes are multiplied by this and never by `scale`, which may be negative.
        """
        return abs(self.scale) * (1.0 if self.rotary is None else self.rotary.stretch**2)

    @property
    def _extra_heads(self) -> dict[str, int]:
        """How many heads the extras that there are have been made for."""
        found = {}
        if self.position_bias is not None:
            found["biases by position"] = self.position_bias.table.shape[0]
        if self.sinks is not None:
            found["sinks"] = self.sinks.logit.shape[0]
        return found

    @property
    def even_slopes(self) -> bool:
        """Whether a row's logits have one and the same slope in every attended point, and nothing else is attended to.

        Then moving values and moving weights are uncorrelated; rotary positions and sinks undo that.
        """
        return self.rotary is None and self.sinks is None

    @property
    def heads(self) -> int:
        """Number of query heads."""
        return self.query.shape[0]

    @property
    def groups(self) -> int:
        """Number of key/value groups; equal to `heads` without GQA."""
        return self.key.shape[0]

    @property
    def width(self) -> int:
        """Dimension of an input token."""
        return self.query.shape[-1]

    @property
    def out_width(self) -> int:
        """Dimension of an output token."""
        return self.output.shape[1]

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the weights."""
        return self.query.dtype

    @cached_property
    def stacked_projections(self) -> Float[Tensor, "rows d"]:
        """W_Q, W_K and W_V of all heads as one matrix, so that one product projects a token; a copy, kept."""
        return torch.cat([weights.flatten(0, 1) for weights in (self.query, self.key, self.value)])

    @cached_property
    def stacked_output(self) -> Float[Tensor, "columns out"]:
        """(W_O^h)^T of all heads on top of one another: merges heads in one product; a copy, kept."""
        return self.output.permute(0, 2, 1).flatten(0, 1)

    def group_of(self, head: int) -> int:
        """The key/value group that `head` reads."""
        return head // (self.heads // self.groups)

    @property
    def head_groups(self) -> list[int]:
        """The group that each head reads: `layer.key[layer.head_groups]` has one entry per head."""
        return [self.group_of(head) for head in range(self.heads)]

    def __call__(self, measure: TokenMeasure) -> Float[Tensor, "*batch n out"]:
        """The output of every atom of the measure."""
        from robust_attn.attention.jacobian import LayerJacobian

        return LayerJacobian.at(self, measure, keep_attention=False).value

    def linearize(self, measure: TokenMeasure) -> LayerJacobian:
        """The derivative at the measure in closed form; it reuses the one forward pass made here."""
        from robust_attn.attention.jacobian import LayerJacobian

        return LayerJacobian.at(self, measure)

    def head(self, head: int) -> AttentionLayer:
        """Head `head` alone, with its own columns of the output projection and no offset."""
        group = self.group_of(head)
        return replace(
            self,
            query=self.query[head : head + 1],
            query_bias=self.query_bias[head : head + 1],
            key=self.key[group : group + 1],
            key_bias=self.key_bias[group : group + 1],
            value=self.value[group : group + 1],
            output=self.output[head : head + 1],
            offset=torch.zeros_like(self.offset),
            position_bias=None if self.position_bias is None else self.position_bias.head(head),
            sinks=None if self.sinks is None else self.sinks.head(head),
        )

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.query.device

    def on(self, device: torch.device) -> AttentionLayer:
        """The same weights on another device."""
        if device == self.device:
            return self
        rotary = None if self.rotary is None else self.rotary.on(device)
        return replace(self, rotary=rotary, **{name: getattr(self, name).to(device) for name in self._movable})

    @property
    def _movable(self) -> tuple[str, ...]:
        """Weights, and of the extras those that are there: what `to` takes along."""
        return (*WEIGHTS, *(name for name in EXTRAS if getattr(self, name) is not None))

    def to(self, dtype: torch.dtype) -> AttentionLayer:
        """The same weights in another precision (rotary angles stay as the model computes them).

        Where the device has no float64, float64 means on the CPU.
        """
        if dtype == self.dtype:
            return self
        here = self.on(able(self.device, dtype))
        return replace(here, **{name: getattr(here, name).to(dtype) for name in here._movable})

"""Guaranteed upper values of the norms of a layer's heads: docs/proofs/operator.md#sizes-on-a-ball."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from robust_attn.attention.head_norm import HeadNorm
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.rounding import UNIT
from robust_attn.spectral.between import interaction_between
from robust_attn.spectral.matrix_norms import SVD_MARGIN, norm_upper, product_error, product_norm_upper


@dataclass(frozen=True, eq=False)
class HeadNorms:
    """Upper values of the norms of a layer's heads, in float64, from which every global bound is computed.

    `value` is |V_h| for V_h = W_O^h W_V^h, `inner_value` |W_V^h|, `output` the norm of all W_O^h side by side.
    `beside_value` bounds |sum_h V_h z_h| by (sum_h |z_h|^2)^{1/2}: the norm of all V_h side by side; `stacked_value`
    bounds (sum_h <w, V_h e>^2)^{1/2} for unit w, e: the smaller of that and of the norm of all V_h on top of one
    another.
    `interaction` bounds |d^2 s_ij / dx_i dx_j|: |A_h|, or with a rotation between what `between.py` finds at the
    positions, and `stacked_interaction` (sum_h |A_h e|^2)^{1/2} for unit e.
    On the ball of radius R the logits' slopes are bounded by `key_slope(R)` (in the attended token x_j) and, up to
    what is common to all j and softmax drops, by `query_slope(R)` (in the attending token x_i).
    """

    value: Float[Tensor, "heads"]
    inner_value: Float[Tensor, "heads"]
    beside_value: float
    stacked_value: float
    output: float
    interaction: Float[Tensor, "heads"]
    stacked_interaction: float
    key_slope_at_zero: Float[Tensor, "heads"]
    query_slope_at_zero: Float[Tensor, "heads"]
    logit_at_zero: Float[Tensor, "heads"]

    def key_slope(self, radius: float) -> Float[Tensor, "heads"]:
        """sup |ds_ij/dx_j| over |x_i| <= radius: |A| R + |a|, a the pull of the query bias."""
        return self.interaction * radius + self.key_slope_at_zero

    def query_slope(self, radius: float) -> Float[Tensor, "heads"]:
        """sup over |x_j| <= radius of |ds_ij/dx_i| up to a shift common to all j: |A| R without rotation."""
        return self.interaction * radius + self.query_slope_at_zero

    def largest_logit(self, radius: float) -> Float[Tensor, "heads"]:
        """kappa: sup |s_ij| on the ball, up to what is common to all j of a row."""
        slopes = self.interaction * radius + self.key_slope_at_zero + self.query_slope_at_zero
        return slopes * radius + self.logit_at_zero

    @property
    def has_bias(self) -> bool:
        """Whether a bias reaches the attention weights."""
        return bool((self.key_slope_at_zero > 0).any() or (self.query_slope_at_zero > 0).any())


@dataclass(frozen=True, eq=False)
class NormedHeadNorms(HeadNorms):
    """The same where queries or keys are normalised: |q_i| <= query_growth R + query_at_zero, and |k_j| likewise.

    `query_lipschitz` and `key_lipschitz` bound the derivatives of q_i and k_j everywhere, the logits' scale is in the
    former. `interaction` is their product; on a ball around tokens there are far smaller ones (`bounds/bent.py`).
    """

    query_growth: Float[Tensor, "heads"]
    query_at_zero: Float[Tensor, "heads"]
    query_lipschitz: Float[Tensor, "heads"]
    key_growth: Float[Tensor, "heads"]
    key_at_zero: Float[Tensor, "heads"]
    key_lipschitz: Float[Tensor, "heads"]
    scale: float

    def key_slope(self, radius: float) -> Float[Tensor, "heads"]:
        """sup |ds_ij/dx_j|: the longest query times the steepest key."""
        return self.scale * (self.query_growth * radius + self.query_at_zero) * self.key_lipschitz

    def query_slope(self, radius: float) -> Float[Tensor, "heads"]:
        """sup |ds_ij/dx_i|: the longest key times the steepest query."""
        return self.scale * (self.key_growth * radius + self.key_at_zero) * self.query_lipschitz

    def largest_logit(self, radius: float) -> Float[Tensor, "heads"]:
        """sup |s_ij|: the longest query times the longest key, which norms bound whatever the radius."""
        longest = self.query_growth * radius + self.query_at_zero, self.key_growth * radius + self.key_at_zero
        return self.scale * longest[0] * longest[1]


@dataclass(frozen=True, eq=False)
class Side:
    """Queries or keys of every head: |W| (of all heads where a norm goes across them), |b| and the norm's gain."""

    weight: Float[Tensor, "heads"]
    bias: Float[Tensor, "heads"]
    gain: Float[Tensor, "heads"]
    largest: Float[Tensor, "heads"]
    norm: HeadNorm | None

    def lipschitz(self, root: float | Tensor) -> Tensor:
        """The derivative's norm where rho is at least `root`."""
        return self.weight if self.norm is None else self.gain * self.weight / root

    @property
    def everywhere(self) -> Float[Tensor, "heads"]:
        """The derivative's norm at every token: rho is at least the root of eps."""
        return self.lipschitz(1.0 if self.norm is None else math.sqrt(self.norm.eps))


def side_of(
    layer: AttentionLayer, weight: Float[Tensor, "blocks width d"], bias: Tensor, norm: HeadNorm | None
) -> Side:
    """The sizes of one side, blocks repeated over the heads that share them; what turns before a norm may stretch."""
    repeats = layer.heads // weight.shape[0]
    stretch = layer.rotary.stretch if layer.rotary is not None and norm is not None and norm.after_rotation else 1.0
    size, shift = norm_upper(weight) * stretch, bias.double().norm(dim=-1) * stretch
    gain, largest = torch.ones_like(size), torch.zeros_like(size)
    if norm is not None:
        gain, largest = norm.largest_gain.double(), norm.largest.double() * (1 + SVD_MARGIN)
        if norm.across:
            size = norm_upper(weight.flatten(0, 1)).expand(size.shape) * stretch
    size, shift, gain, largest = (field.repeat_interleave(repeats) for field in (size, shift, gain, largest))
    return Side(size, shift, gain, largest, norm)


def sides(layer: AttentionLayer) -> tuple[Side, Side]:
    """Queries and keys."""
    return (
        side_of(layer, layer.query, layer.query_bias, layer.query_norm),
        side_of(layer, layer.key, layer.key_bias, layer.key_norm),
    )


def _normed_head_norms(layer: AttentionLayer, plain: HeadNorms) -> NormedHeadNorms:
    query, key = sides(layer)
    growth, still = {}, {}
    for name, side in (("query", query), ("key", key)):
        growth[name] = side.weight if side.norm is None else torch.zeros_like(side.weight)
        still[name] = side.bias if side.norm is None else side.largest
    interaction = layer.logit_scale * query.everywhere * key.everywhere
    kept: dict[str, Any] = {field.name: getattr(plain, field.name) for field in fields(plain)}
    return NormedHeadNorms(
        **kept | {"interaction": interaction, "stacked_interaction": float(interaction.norm())},
        query_growth=growth["query"],
        query_at_zero=still["query"],
        query_lipschitz=query.everywhere,
        key_growth=growth["key"],
        key_at_zero=still["key"],
        key_lipschitz=key.everywhere,
        scale=layer.logit_scale,
    )


def head_norms(
    layer: AttentionLayer, *, positions: Int[Tensor, "*batch n"] | None = None, unit: float = UNIT
) -> HeadNorms:
    """The norms of every head of a layer, each with what rounding may have taken from it; nothing if `unit` is zero.

    Of a layer with rotations they hold for atoms at the `positions` given alone, and are smaller for it; without any
    for atoms everywhere. Other layers do not ask.
    """
    plain = _plain_head_norms(layer, unit)
    if layer.normed:
        return _normed_head_norms(layer, plain)
    if layer.rotary is None or positions is None:
        return plain
    interaction = interaction_between(layer, positions, everywhere=plain.interaction, unit=unit)
    stacked = min(plain.stacked_interaction, float(interaction.norm()) * (1 + SVD_MARGIN))
    return replace(plain, interaction=interaction, stacked_interaction=stacked)


def _plain_head_norms(layer: AttentionLayer, unit: float) -> HeadNorms:
    groups = layer.head_groups
    query, key, value = layer.query.double(), layer.key[groups].double(), layer.value[groups].double()
    output, scale = layer.output.double(), layer.logit_scale
    beside, on_top = _joint_value_norms(output, value, unit)
    return HeadNorms(
        value=product_norm_upper(output, value, unit=unit),
        inner_value=norm_upper(value),
        beside_value=beside,
        stacked_value=min(beside, on_top),
        output=float(norm_upper(output.permute(1, 0, 2).flatten(1))),
        interaction=_interaction(layer, query, key, unit) * scale,
        stacked_interaction=_stacked_interaction(layer, query, key, unit) * scale,
        **{name: size * scale for name, size in _slopes_at_zero(layer, query, key, unit).items()},
    )


def _interaction(layer: AttentionLayer, query: Tensor, key: Tensor, unit: float) -> Float[Tensor, "heads"]:
    """|W_K^T W_Q|; with a rotation between, the product of the norms."""
    if layer.rotary is None:
        return product_norm_upper(key.transpose(-1, -2), query, unit=unit)
    return norm_upper(query) * norm_upper(key)


def _slopes_at_zero(
    layer: AttentionLayer, query: Tensor, key: Tensor, unit: float
) -> dict[str, Float[Tensor, "heads"]]:
    """What biases alone do to the logits' slopes and to the logits; without rotation softmax drops the key's bias.

    Beside a sink, whose logit has no slope, it does not drop out of the slopes in the attending token.
    """
    query_bias, key_bias = layer.query_bias.double(), layer.key_bias[layer.head_groups].double()
    if layer.rotary is None:
        transposed, column = key.transpose(-1, -2), query_bias[..., None]
        pull = (transposed @ column).norm(dim=(-2, -1)) + product_error(transposed, column, unit=unit)
        nothing = torch.zeros_like(pull)
        own = nothing
        if layer.sinks is not None:
            transposed, column = query.transpose(-1, -2), key_bias[..., None]
            own = (transposed @ column).norm(dim=(-2, -1)) + product_error(transposed, column, unit=unit)
        return {"key_slope_at_zero": pull, "query_slope_at_zero": own, "logit_at_zero": nothing}
    query_size, key_size = query_bias.norm(dim=-1), key_bias.norm(dim=-1)
    return {
        "key_slope_at_zero": norm_upper(key) * query_size,
        "query_slope_at_zero": norm_upper(query) * key_size,
        "logit_at_zero": query_size * key_size,
    }


def _joint_value_norms(
    output: Float[Tensor, "heads out k"], value: Float[Tensor, "heads k d"], unit: float
) -> tuple[float, float]:
    """Norms of [V_1 ... V_H] and of its transposed arrangement, V_h = output_h value_h, by QR of one side."""
    value_factor = torch.linalg.qr(value.transpose(-1, -2), mode="r").R
    output_factor = torch.linalg.qr(output, mode="r").R
    beside = (output @ value_factor.transpose(-1, -2)).permute(1, 0, 2).flatten(1)
    on_top = (output_factor @ value).flatten(0, 1)
    error = float(product_error(output, value, unit=unit).norm())
    return float(norm_upper(beside)) + error, float(norm_upper(on_top)) + error


def _stacked_interaction(layer: AttentionLayer, query: Tensor, key: Tensor, unit: float) -> float:
    """Norm of all A_h on top of one another; with a rotation between, of all |W_K^h| W_Q^h."""
    if layer.rotary is None:
        key_factor = torch.linalg.qr(key.transpose(-1, -2), mode="r").R
        error = float(product_error(key.transpose(-1, -2), query, unit=unit).norm())
        return float(norm_upper((key_factor @ query).flatten(0, 1))) + error
    return float(norm_upper((norm_upper(key)[:, None, None] * query).flatten(0, 1)))

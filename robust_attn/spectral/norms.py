"""Guaranteed upper values of norms: docs/proofs/spectral.md#gram-iteration, docs/proofs/operator.md#sizes-on-a-ball."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.rounding import UNIT

SVD_MARGIN = 1e-11
"""Relative margin on an SVD in float64: LAPACK's backward error is a small multiple of dimension times 2e-16."""
SQUARINGS = 6


def norm_upper(matrix: Float[Tensor, "*batch rows columns"]) -> Float[Tensor, "*batch"]:
    """An upper value of the spectral norm: the SVD's first singular value, in float64, with its error margin.

    Not a number where the matrix has an entry that is not finite: LAPACK would raise an error for the whole batch.
    """
    matrix = matrix.double()
    finite = torch.isfinite(matrix).flatten(-2).all(-1)
    norm = torch.linalg.svdvals(torch.where(finite[..., None, None], matrix, 0.0))[..., 0] * (1 + SVD_MARGIN)
    return torch.where(finite, norm, torch.nan)


def product_norm_upper(
    left: Float[Tensor, "*batch a k"], right: Float[Tensor, "*batch k b"], *, unit: float = UNIT
) -> Float[Tensor, "*batch"]:
    """An upper value of |left right| for thin factors: both are reduced by QR to k x k first.

    What the factors have in size and the product has not is lost to rounding: `product_error` is added.
    """
    left_factor = torch.linalg.qr(left.double(), mode="r").R
    right_factor = torch.linalg.qr(right.double().transpose(-1, -2), mode="r").R
    found = norm_upper(left_factor @ right_factor.transpose(-1, -2))
    return found + product_error(left, right, unit=unit)


def product_error(
    left: Float[Tensor, "*batch a k"], right: Float[Tensor, "*batch k b"], *, unit: float = UNIT
) -> Float[Tensor, "*batch"]:
    """How far rounding may take left right from the exact product, as a matrix, with or without QR of the factors.

    k units times the Frobenius norms for the product, and (a + b) k for the two factorisations.
    """
    rows, inner = left.shape[-2:]
    count = (rows + right.shape[-1] + 2) * inner + 20
    return unit * count * left.double().norm(dim=(-2, -1)) * right.double().norm(dim=(-2, -1))


def covariance_norm_upper(covariance: Float[Tensor, "*batch k k"]) -> Float[Tensor, "*batch"]:
    """An upper value of the norm of positive semidefinite matrices, by Gram iteration: |C| <= |C^(2^s)|_F^(2^-s).

    Sound at every step because the Frobenius norm dominates; the excess is at most k^(2^-(s+1)), 3.3 % for k = 64.
    """
    power = covariance.double()
    log_norm = torch.zeros(power.shape[:-2], dtype=torch.float64, device=power.device)
    for step in range(SQUARINGS + 1):
        size = power.flatten(-2).norm(dim=-1)
        safe = torch.where(size > 0, size, torch.ones_like(size))
        log_norm = log_norm + safe.log() / 2**step
        power = power / safe[..., None, None]
        if step < SQUARINGS:
            power = power @ power
    zero = covariance.flatten(-2).abs().amax(-1) == 0
    return torch.where(zero, torch.zeros_like(log_norm), log_norm.exp() * (1 + SVD_MARGIN))


@dataclass(frozen=True, eq=False)
class HeadNorms:
    """Upper values of the norms of a layer's heads, in float64, from which every global bound is computed.

    `value` is |V_h| for V_h = W_O^h W_V^h, `inner_value` |W_V^h|, `output` the norm of all W_O^h side by side.
    `beside_value` bounds |sum_h V_h z_h| by (sum_h |z_h|^2)^{1/2}: the norm of all V_h side by side; `stacked_value`
    bounds (sum_h <w, V_h e>^2)^{1/2} for unit w, e: the smaller of that and of the norm of all V_h on top of one
    another.
    `interaction` bounds |d^2 s_ij / dx_i dx_j|: |A_h|, or the product of norms where a rotation stands between, and
    `stacked_interaction` (sum_h |A_h e|^2)^{1/2} for unit e.
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


def head_norms(layer: AttentionLayer, *, unit: float = UNIT) -> HeadNorms:
    """The norms of every head of a layer, each with what rounding may have taken from it; nothing if `unit` is zero."""
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

"""The set of inputs over which a global bound speaks, and how the heads of a layer are put together."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Visibility, visible
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget, PerToken
from robust_attn.spectral.matrix_norms import product_error
from robust_attn.spectral.norms import HeadNorms

MARGIN = 1 + 1e-12
"""For the rounding of a few operations in float64."""


@dataclass(frozen=True, eq=False)
class BallSetting:
    """All configurations of atoms in the ball of `radius`, with the masses, positions and mask given.

    Constants are with respect to the norm (sum_i weights_i |.|^2)^{1/2} on both sides, times `stretch`, the ratio
    between the Hilbert radius of the budget and its own radius (sqrt(n) for a per-token budget, else 1).
    Everything that is attended to has a value of size |V_h| `value_radius` at most, which is `radius` but for sinks
    whose value is farther away; `bias_spread` is half of the largest difference of biases by position in a row.
    `even_slopes`: see AttentionLayer.
    """

    norms: HeadNorms
    radius: float
    masses: Float[Tensor, "n"]
    weights: Float[Tensor, "n"]
    visible: Float[Tensor, "n n"]
    mask: Visibility
    even_slopes: bool
    sinks: bool
    value_radius: Float[Tensor, "heads"]
    bias_spread: Float[Tensor, "heads"]
    budget_radius: float
    stretch: float
    per_token: bool

    @classmethod
    def around(cls, layer: AttentionLayer, norms: HeadNorms, measure: TokenMeasure, budget: Budget) -> BallSetting:
        """The smallest ball around the origin that holds one sample's atoms wherever the budget lets them go."""
        reach = measure.points.norm(dim=-1) + budget.reach(measure)
        return cls.of(layer, norms, measure, budget, radius=float(reach[measure.present].max()))

    @classmethod
    def of(
        cls, layer: AttentionLayer, norms: HeadNorms, measure: TokenMeasure, budget: Budget, *, radius: float
    ) -> BallSetting:
        """The ball of the radius given, with the masses and positions of one sample."""
        present = measure.present
        seen = visible(layer.mask, measure.positions, measure.masses)[present][:, present]
        hilbert = budget.hilbert_radius(measure)
        return cls(
            norms=norms,
            radius=radius,
            masses=measure.masses[present].double(),
            weights=budget.weights(measure)[present].double(),
            visible=seen.double(),
            mask=layer.mask,
            even_slopes=layer.even_slopes,
            sinks=layer.sinks is not None,
            value_radius=_value_radius(layer, norms, radius),
            bias_spread=_bias_spread(layer, measure, seen),
            budget_radius=budget.radius,
            stretch=hilbert / budget.radius if budget.radius > 0 else 1.0,
            per_token=isinstance(budget, PerToken),
        )

    @property
    def length(self) -> int:
        """Number of atoms with mass."""
        return self.masses.shape[0]

    @property
    def uniform(self) -> bool:
        """Whether all atoms have the same mass."""
        return bool((self.masses == self.masses[0]).all())

    @property
    def averaged(self) -> bool:
        """Whether the norm is a multiple of that of L2 of the measure."""
        ratio = self.weights / self.masses
        return bool(((ratio - ratio[0]).abs() <= 1e-12 * ratio[0]).all())

    @property
    def kappa(self) -> Float[Tensor, "heads"]:
        """Largest |s_ij| of each head, up to what is common to a row."""
        return self.norms.largest_logit(self.radius) + self.bias_spread

    @property
    def key_reach(self) -> Float[Tensor, "heads"]:
        """Key slope times radius: how much of a value the logits' slope in an attended token can pull along."""
        return self.norms.key_slope(self.radius) * self.value_radius

    @property
    def query_reach(self) -> Float[Tensor, "heads"]:
        """Query slope times radius: |A| R^2 of each head without rotation."""
        return self.norms.query_slope(self.radius) * self.value_radius

    @property
    def largest_reach(self) -> Float[Tensor, "heads"]:
        """The largest of kappa, key reach and query reach; without sinks kappa is never below the key reach."""
        return torch.stack((self.kappa, self.key_reach, self.query_reach)).amax(0)

    def mixing(self) -> Float[Tensor, "heads"]:
        """c_h >= max_j sum_i w_i P_ij / w_j for all configurations: how much attention one atom can draw at most.

        P_ij <= m_j / (m_j + (M_i - m_j) e^{-2 kappa}), M_i the mass that row i sees. Equal masses without a mask give
        n / (1 + (n-1) e^{-2 kappa}), with a causal mask sum_i 1 / (1 + (i-1) e^{-2 kappa}).
        """
        seen_mass = self.visible @ self.masses
        others = (seen_mass[:, None] - self.masses[None, :]).clamp_min(0.0) * self.visible
        columns = []
        for kappa in self.kappa:
            ceiling = self.visible * self.masses / (self.masses + others * torch.exp(-2 * kappa))
            columns.append(((self.weights @ ceiling) / self.weights).max())
        return torch.stack(columns)


def _value_radius(layer: AttentionLayer, norms: HeadNorms, radius: float) -> Float[Tensor, "heads"]:
    """R' >= R with |W_O v| <= |V_h| R' and |v| <= |W_V| R' for the value v of a sink; infinite where there is none."""
    reach = torch.full_like(norms.value, radius)
    if layer.sinks is None:
        return reach
    value = layer.sinks.value.double()
    projected = (layer.output.double() @ value[..., None]).norm(dim=(-2, -1))
    projected = projected + product_error(layer.output, value[..., None])
    ratios = (projected / norms.value, value.norm(dim=-1) * MARGIN / norms.inner_value)
    return torch.stack((reach, *(ratio.nan_to_num(nan=0.0) * MARGIN for ratio in ratios))).amax(0)


def _bias_spread(layer: AttentionLayer, measure: TokenMeasure, seen: Tensor) -> Float[Tensor, "heads"]:
    """max_i (max_j b_ij - min_j b_ij) / 2 over seen j, with room for rounding: what a row's middle leaves of a bias."""
    if layer.position_bias is None:
        return torch.zeros(layer.heads, dtype=torch.float64, device=layer.query.device)
    bias = layer.position_bias.between(measure.positions).double()[:, measure.present][..., measure.present]
    high, low = (torch.where(seen, sign * bias, -torch.inf).amax(-1) for sign in (1.0, -1.0))
    return ((high + low).amax(-1) / 2).clamp_min(0.0) * MARGIN


def joined_heads(norms: HeadNorms, log_constants: Float[Tensor, "heads"]) -> float:
    """log of the layer's constant from those of heads with V = I (docs/proofs/global.md#heads-joined): the smaller sum.

    sum_h |W_O^h W_V^h| L_h, and |W_O| (sum_h |W_V^h|^2 L_h^2)^{1/2}.
    """
    added = torch.logsumexp(_log_product(norms.value, log_constants), dim=0)
    joint = torch.logsumexp(2 * _log_product(norms.inner_value, log_constants), dim=0) / 2
    log_output = math.log(norms.output) if norms.output > 0 else -math.inf
    return min(float(added), float(joint) + log_output)


def _log_product(norm: Float[Tensor, "heads"], log_constants: Float[Tensor, "heads"]) -> Float[Tensor, "heads"]:
    """log(norm times constant); infinite where values are zero and the constant is not finite (sinks with a value)."""
    return torch.where((norm == 0) & (log_constants == torch.inf), torch.inf, norm.log() + log_constants)

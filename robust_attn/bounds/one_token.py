"""What one token can do, moved alone as far as the budget lets it go (docs/proofs/local.md#one-token).

Row i sees the moved token j through one logit and one value. With P = P_ij, t what the logit moves and u_i the mean
value of the row,

    f_i(after) - f_i = sum_h rho (u_j - u_i) + P' V d,    rho = P (e^t - 1) / (1 + P (e^t - 1)),  P' = rho + P (1 - rho)

exactly, so no remainder is to be bounded: |t| <= T is all that is asked. Memory is that of a few rows of attention, so
this holds at lengths where no other certificate can be computed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.jacobian import LayerJacobian
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import visible
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.rounding import UNIT, Rounding, rounding_at, within_range
from robust_attn.attention.streamed import seen_columns
from robust_attn.bounds.interval import MARGIN
from robust_attn.bounds.pieces import SEEN, certain
from robust_attn.budget import Frobenius, Wasserstein
from robust_attn.spectral.matrix_norms import covariance_norm_upper
from robust_attn.spectral.norms import HeadNorms, head_norms


@dataclass(frozen=True, eq=False)
class OneToken:
    """Upper values for every token of one measure: how far the output goes when that token alone moves.

    `each` has one for every token, from norms of its row's queries alone; `change(token)` is the sharper one that looks
    at the token's own direction. `hull` is what no displacement of all tokens exceeds.
    """

    layer: AttentionLayer
    at: LayerJacobian
    norms: HeadNorms
    error: Rounding
    weights: Float[Tensor, "n"]
    reach: Float[Tensor, "n"]
    points: Float[Tensor, "heads n k"]
    means: Float[Tensor, "heads n k"]
    farthest: Float[Tensor, "heads n"]
    each: Float[Tensor, "n"]

    @classmethod
    def of(cls, layer: AttentionLayer, measure: TokenMeasure, budget: Wasserstein | Frobenius) -> OneToken:
        """One pass over all attention weights, in float64; one measure, points [n, d]."""
        if layer.normed or layer.sinks is not None:
            raise ValueError("one token alone: not known for layers with sinks or with norms of queries or keys")
        layer, measure = layer.to(torch.float64), measure.to(torch.float64)
        at, weights = layer.linearize(measure), budget.weights(measure)
        factor = torch.linalg.qr(layer.output, mode="r").R.mT
        reach = torch.where(weights > 0, budget.radius * weights.clamp_min(SEEN).rsqrt(), 0.0) * MARGIN
        length = measure.length
        empty = reach.new_zeros(layer.heads, length)
        found = cls(
            layer=layer,
            at=at,
            norms=head_norms(layer),
            error=rounding_at(layer, measure),
            weights=weights,
            reach=reach,
            points=at.projections.v @ factor,
            means=at.mean @ factor,
            farthest=empty,
            each=reach.new_zeros(length),
        )
        found._first_pass()
        if not bool(within_range(layer, measure, budget.radius)):
            found.each.fill_(torch.nan)
        return found

    @property
    def hull(self) -> float:
        """Every token moved: each row's mean stays in the hull of what it sees (docs/proofs/local.md#hull)."""
        rows = (self.farthest + self.norms.value[:, None] * self.reach.max()).sum(0)
        return float((self.weights * rows**2).sum().sqrt()) * MARGIN

    def change(self, token: int) -> float:
        """The upper value for one token."""
        layer, measure, parts = self.layer, self.at.measure, self.at.projections
        position = measure.positions[token].expand(measure.positions.shape)
        turned = parts.q if layer.rotary is None else layer.rotary.rotate_back(parts.q, position)
        factor = torch.linalg.qr(layer.key.mT, mode="r").R[layer.head_groups].mT
        slope = abs(layer.scale) * (turned @ factor).norm(dim=-1) + self.error.key_slope[:, None]
        logs, everyone = self.at.log_column(token)[..., None], slice(0, measure.length)
        seen = (logs != -torch.inf).any(0)
        rows = self._rows(logs.exp(), seen, slope[..., None], everyone, slice(token, token + 1))[:, 0]
        rows[token] = self._own(slice(token, token + 1))[0]
        total = (self.weights * rows**2).sum().sqrt() * MARGIN
        return float(torch.minimum(total, self.each[token]))

    def largest(self) -> tuple[int, float]:
        """The token for which the upper value is largest, and that value: none moved alone exceeds it.

        Tokens are looked at in the order of `each`, until no other one can be larger.
        """
        order = self.each.argsort(descending=True).tolist()
        best, top = order[0], self.change(order[0])
        for token in order[1:]:
            if not float(self.each[token]) > top:
                break
            found = self.change(token)
            if not found <= top:
                best, top = token, found
        return best, top

    def _first_pass(self) -> None:
        layer, measure = self.layer, self.at.measure
        key = covariance_norm_upper(layer.key @ layer.key.mT).sqrt()[layer.head_groups]
        stretch = 1.0 if layer.rotary is None else layer.rotary.stretch
        slope = abs(layer.scale) * stretch * key[:, None] * self.at.projections.q.norm(dim=-1)
        slope, squares = slope + self.error.key_slope[:, None], torch.zeros_like(self.each)
        for rows, p in self.at.attention_blocks():
            tokens, _ = seen_columns(layer.mask, measure.positions, rows)
            seen = visible(layer.mask, measure.positions, measure.masses, rows)[:, tokens]
            self.farthest[:, rows] = self._farthest(rows, tokens, seen)
            change = self._rows(p[..., tokens], seen, slope[:, rows, None], rows, tokens)
            index = torch.arange(rows.start, rows.stop)
            change[index - rows.start, index - tokens.start] = self._own(rows)
            squares[tokens] += (self.weights[rows, None] * change**2).sum(0)
        self.each.copy_(squares.sqrt() * MARGIN)

    def _farthest(self, rows: slice, tokens: slice, seen: Tensor) -> Float[Tensor, "heads rows"]:
        """The largest distance of a visible value from the row's exact mean."""
        found = torch.where(seen, self._distance(rows, tokens), 0.0).amax(-1)
        return found * (1 + self.error.weight.clamp_max(1.0))[:, None]

    def _distance(self, rows: slice, tokens: slice) -> Float[Tensor, "heads rows tokens"]:
        """|u_j - u_i| from the mean as computed, and what rounding may have taken from it."""
        points, means = self.points[:, tokens], self.means[:, rows]
        size, own = points.norm(dim=-1)[:, None, :], means.norm(dim=-1)[..., None]
        lost = UNIT * (points.shape[-1] + 10) * (size + own) ** 2
        squared = (size**2 + own**2 - 2 * means @ points.mT).clamp_min(0.0) + lost
        return squared.sqrt() + 2 * self.error.value[:, None, None]

    def _rows(
        self,
        p: Float[Tensor, "heads rows tokens"],
        seen: Tensor,
        slope: Float[Tensor, "heads rows 1"],
        rows: slice,
        tokens: slice,
    ) -> Float[Tensor, "rows tokens"]:
        """How far each row goes when each of the tokens moves: by the formula, or to the end of the hull."""
        part, value = self.error.weight[:, None, None], self.norms.value[:, None, None]
        farthest, reach = self.farthest[:, rows, None], self.reach[tokens]
        distance = self._distance(rows, tokens) + part.clamp_max(1.0) * farthest
        likely = (p * (1 + part)).clamp(SEEN, 1.0)
        ratio, after = moved_weights(likely, slope * reach)
        hull = torch.maximum(farthest, distance + value * reach)
        change = torch.minimum(certain(ratio * distance + after * value * reach), hull)
        return torch.where(seen, change, 0.0).sum(0)

    def _own(self, rows: slice) -> Float[Tensor, "rows"]:
        """The moved token's own row, whose query moves too: it stays in the hull of what it sees."""
        index = torch.arange(rows.start, rows.stop)
        distance = (self.points[:, index] - self.means[:, index]).norm(dim=-1) + 2 * self.error.value[:, None]
        distance = distance + self.error.weight.clamp_max(1.0)[:, None] * self.farthest[:, index]
        return torch.maximum(self.farthest[:, index], distance + self.norms.value[:, None] * self.reach[index]).sum(0)


def moved_weights(p: Tensor, turn: Tensor) -> tuple[Tensor, Tensor]:
    """The largest |P' - P| / (1 - P) and the largest P' when the logit of a key with weight P moves by at most `turn`.

    Up, (P' - P) / (1 - P) = P b / (P + (1 - P) (1 - b)) with b = 1 - e^{-turn}; down, P b / ((1 - P) + P (1 - b)).
    """
    left = torch.exp(-turn)
    fall = -torch.expm1(-turn)
    rising, falling = p + (1 - p) * left, (1 - p) + p * left
    return torch.maximum(p * fall / rising, p * fall / falling) * MARGIN, (p / rising).clamp_max(1.0)

"""The second derivative of an attention layer at a measure, as a bilinear map of displacements.

With P, q, k, v at the tokens, ' and ` the derivatives along two displacements, and ~ for what is centred under P_i
(docs/proofs/operator.md#second-derivative, polarised and in head space):

    o_i'` = sum_j P_ij (s'`_ij + s~'_ij s~`_ij)~ v_j + sum_j P_ij (s~`_ij v'_j + s~'_ij v`_j)
    s'_ij = scale (<q'_i, k_j> + <q_i, k'_j>),    s'`_ij = scale (<q'_i, k`_j> + <q`_i, k'_j>)

Keys and values enter through differences within a row: what is common to them is taken off first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from robust_attn.attention.approximate import Approximate, ApproximateWeights
from robust_attn.attention.jacobian import Projections, all_logits, merge_heads, project, project_tangent
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.rounding import UNIT, Sizes, rounding_at


@dataclass(frozen=True, eq=False)
class _Moved:
    """How queries, keys and values of every head move along displacements; the key and value of a sink do not."""

    q: Approximate
    k: Approximate
    v: Approximate


@dataclass(frozen=True, eq=False)
class SecondDerivative:
    """D^2 f at one measure without padding, in float64; queries and keys are not normalised."""

    layer: AttentionLayer
    measure: TokenMeasure
    parts: Projections
    attention: ApproximateWeights
    q: Approximate
    k: Approximate
    v: Approximate

    @classmethod
    def at(cls, layer: AttentionLayer, measure: TokenMeasure) -> SecondDerivative:
        """From one forward pass. A sink is one more key, whose slope is zero and whose value does not move."""
        if layer.normed:
            raise ValueError("the second derivative is known of layers without norms of queries and keys alone")
        layer, measure = layer.to(torch.float64), measure.to(torch.float64)
        parts, sizes = project(layer, measure), Sizes.of(layer, measure)
        attention = all_logits(layer, measure, parts, slice(0, measure.length)).softmax(-1)
        lost = 2 * UNIT * (layer.width + measure.length + 20) * math.sqrt(measure.length + 1)
        keys, values = parts.k, parts.v
        if layer.sinks is not None:
            keys = functional.pad(keys, (0, 0, 0, 1))
            values = torch.cat((values, layer.sinks.value[:, None, :]), dim=-2)
        return cls(
            layer=layer,
            measure=measure,
            parts=parts,
            attention=ApproximateWeights(attention, rounding_at(layer, measure).weight),
            q=Approximate(parts.q, lost * sizes.queries),
            k=Approximate(keys - keys.mean(-2, keepdim=True), 2 * lost * sizes.keys),
            v=Approximate(values - values.mean(-2, keepdim=True), 2 * lost * sizes.values),
        )

    def along(self, first: Float[Tensor, "pairs n d"], second: Float[Tensor, "pairs n d"]) -> Approximate:
        """D^2 f [first, second] of each pair of displacements, [pairs, n, out]."""
        one, other = self._moved(first), self._moved(second)
        slopes, others = self._slopes(one), self._slopes(other)
        bilinear = (one.q @ other.k.transposed() + other.q @ one.k.transposed()).scaled(self.layer.scale)
        pull = self.attention.times(self.attention.centred(bilinear + slopes * others)) @ self.v
        moved = self.attention.times(others) @ one.v + self.attention.times(slopes) @ other.v
        return self._merged(pull + moved)

    def _moved(self, displacement: Float[Tensor, "pairs n d"]) -> _Moved:
        shape, groups = displacement.shape[:-1], self.layer.head_groups
        here = TokenMeasure(displacement, self.measure.masses.expand(shape), self.measure.positions.expand(shape))
        moved = project_tangent(self.layer, here, displacement, self.parts)
        turned = 1.0 if self.layer.rotary is None else self.layer.rotary.stretch
        length = UNIT * (self.layer.width + 20) * torch.linalg.vector_norm(displacement, dim=(-2, -1))[..., None]
        q = Approximate(moved.q, turned * length * self.layer.query.norm(dim=(-2, -1)))
        k = Approximate(moved.k, turned * length * self.layer.key[groups].norm(dim=(-2, -1)))
        v = Approximate(moved.v, length * self.layer.value[groups].norm(dim=(-2, -1)))
        return _Moved(q, k, v) if self.layer.sinks is None else _Moved(q, k.with_zero(-2), v.with_zero(-2))

    def _slopes(self, moved: _Moved) -> Approximate:
        """Of the logits, less the mean of each row."""
        slopes = moved.q @ self.k.transposed() + self.q @ moved.k.transposed()
        return self.attention.centred(slopes.scaled(self.layer.scale))

    def _merged(self, heads: Approximate) -> Approximate:
        """All heads through the output projection: errors of heads add up in squares before it."""
        output = self.layer.stacked_output
        whole, brought = (field.square().sum(-1).sqrt() for field in (heads.size, heads.error))
        error = output.norm() * (brought + UNIT * (output.shape[0] + 5) * whole)
        return Approximate(merge_heads(self.layer, heads.value), error)

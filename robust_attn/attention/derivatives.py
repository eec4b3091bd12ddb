"""The second and third derivatives of an attention layer at a measure, as multilinear maps of displacements.

With P, q, k, v at the tokens, derivatives along displacements a, b, c as indices, and ~ for what is centred under P_i
(docs/proofs/operator.md#second-derivative and #third-derivative, polarised and in head space):

    m_ab   = (s_ab + s~_a s~_b)~,    s_a = scale (<q_a, k> + <q, k_a>),    s_ab = scale (<q_a, k_b> + <q_b, k_a>)
    o_ab   = sum_j P_ij ( m_ab v + s~_a v_b + s~_b v_a )
    o_abc  = sum_j P_ij ( (s~_a m_bc + s~_b m_ac + s~_c m_ab - 2 s~_a s~_b s~_c)~ v + m_bc v_a + m_ac v_b + m_ab v_c )

Keys and values enter through differences within a row: what is common to them is taken off first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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
class Derivatives:
    """D^2 f and D^3 f at one measure without padding, in float64; queries and keys are not normalised."""

    layer: AttentionLayer
    measure: TokenMeasure
    parts: Projections
    attention: ApproximateWeights
    q: Approximate
    k: Approximate
    v: Approximate

    @classmethod
    def at(cls, layer: AttentionLayer, measure: TokenMeasure) -> Derivatives:
        """From one forward pass. A sink is one more key, whose slope is zero and whose value does not move."""
        if layer.normed:
            raise ValueError("higher derivatives are known of layers without norms of queries and keys alone")
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

    def of_order(self, order: int) -> Callable[..., Approximate]:
        """The derivative of that order, two or three."""
        assert order in (2, 3)
        return self.second if order == 2 else self.third

    def second(self, first: Float[Tensor, "pairs n d"], second: Float[Tensor, "pairs n d"]) -> Approximate:
        """D^2 f [first, second] of each pair of displacements, [pairs, n, out]."""
        one, other = self._moved(first), self._moved(second)
        slopes, others = self._slopes(one), self._slopes(other)
        pull = self._drawn(self._bent(one, other, slopes * others), self.v)
        return self._merged(pull + self._drawn(others, one.v) + self._drawn(slopes, other.v))

    def third(self, *displacements: Float[Tensor, "triples n d"]) -> Approximate:
        """D^3 f of each triple of displacements, three fields of them, [triples, n, out]."""
        a, b, c = (self._moved(each) for each in displacements)
        of_a, of_b, of_c = (self._slopes(each) for each in (a, b, c))
        both = of_a * of_b
        ab, ac, bc = self._bent(a, b, both), self._bent(a, c, of_a * of_c), self._bent(b, c, of_b * of_c)
        joint = of_a * bc + of_b * ac + of_c * ab + (both * of_c).scaled(-2.0)
        pull = self._drawn(self.attention.centred(joint), self.v)
        return self._merged(pull + self._drawn(bc, a.v) + self._drawn(ac, b.v) + self._drawn(ab, c.v))

    def _bent(self, one: _Moved, other: _Moved, slopes: Approximate) -> Approximate:
        """What two displacements together do to weights, over the weights; `slopes` is the product of theirs."""
        bilinear = (one.q @ other.k.transposed() + other.q @ one.k.transposed()).scaled(self.layer.scale)
        return self.attention.centred(bilinear + slopes)

    def _drawn(self, parts: Approximate, points: Approximate) -> Approximate:
        """sum_j P_ij parts_ij points_j."""
        return self.attention.times(parts) @ points

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

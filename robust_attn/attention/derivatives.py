"""The derivatives of an attention layer at a measure beyond the first, as multilinear maps of displacements.

Let displacements be numbered, P_S the derivative of attention weights along those of a set S, W_S = P_S / P, and s_S
that of the logits, zero beyond two displacements. With ~ for what is centred under P_i, a the first of S and
l_S = (log P)_S (docs/proofs/operator.md#higher-derivatives):

    W_S = ( s_S + sum over a in B, B a proper part of S, of l_B W_{S - B} )~,    l_S = s_S less the same mean
    o_S = sum_j P_ij ( W_S v_j + sum over c in S of W_{S - c} v_c,j )

Keys and values enter through differences within a row: what is common to them is taken off first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from robust_attn.attention.approximate import Approximate, ApproximateWeights, sum_of
from robust_attn.attention.jacobian import Projections, all_logits, merge_heads, project, project_tangent
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.rounding import UNIT, Sizes, rounding_at

Chosen = tuple[int, ...]
"""Some of several displacements, by their places in ascending order."""


@dataclass(frozen=True, eq=False)
class _Moved:
    """How queries, keys and values of every head move along displacements; the key and value of a sink do not."""

    q: Approximate
    k: Approximate
    v: Approximate


@dataclass(frozen=True, eq=False)
class Outputs:
    """Fields of outputs as computed; each of the exact ones differs by at most `error` in the Frobenius norm."""

    value: Float[Tensor, "tuples n out"]
    error: Float[Tensor, ""]

    @property
    def size(self) -> Float[Tensor, "tuples"]:
        """The Frobenius norms as computed."""
        return torch.linalg.vector_norm(self.value, dim=(-2, -1))


@dataclass(frozen=True, eq=False)
class Derivatives:
    """D^k f at one measure without padding, in float64; queries and keys are not normalised."""

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
        lost = 2 * UNIT * (layer.width + measure.length + 20)
        keys, values = parts.k, parts.v
        if layer.sinks is not None:
            keys = functional.pad(keys, (0, 0, 0, 1))
            values = torch.cat((values, layer.sinks.value[:, None, :]), dim=-2)
        return cls(
            layer=layer,
            measure=measure,
            parts=parts,
            attention=ApproximateWeights(attention, rounding_at(layer, measure).weight),
            q=_of_one(parts.q, lost * sizes.queries),
            k=_of_one(keys - keys.mean(-2, keepdim=True), 2 * lost * sizes.keys),
            v=_of_one(values - values.mean(-2, keepdim=True), 2 * lost * sizes.values),
        )

    def along(self, *displacements: Float[Tensor, "tuples n d"]) -> Outputs:
        """D^k f of each tuple of k displacements, two at least: one field for every place of a tuple."""
        return self.of_each([tuple(range(len(displacements)))], *displacements)[0]

    def of_each(self, wanted: Sequence[Chosen], *displacements: Float[Tensor, "tuples n d"]) -> list[Outputs]:
        """D^k f of several choices of k among the displacements, by their places; all of them share what they can."""
        moved = [self._moved(each) for each in displacements]
        changes = self._changes(moved)
        return [self._merged(self._output(moved, changes, chosen)) for chosen in wanted]

    def _output(self, moved: Sequence[_Moved], changes: Mapping[Chosen, Approximate], chosen: Chosen) -> Approximate:
        """o_S of every head."""
        own = [
            self._drawn(changes[tuple(other for other in chosen if other != each)], moved[each].v) for each in chosen
        ]
        return sum_of([self._drawn(changes[chosen], self.v), *own])

    def _changes(self, moved: Sequence[_Moved]) -> dict[Chosen, Approximate]:
        """Of attention weights along every set of the displacements, over the weights: W_S."""
        changes: dict[Chosen, Approximate] = {}
        logs: dict[Chosen, Approximate] = {}
        for count in range(1, len(moved) + 1):
            for chosen in combinations(range(len(moved)), count):
                terms = [logs[block] * changes[rest] for block, rest in _in_two(chosen)]
                slope = self._logits([moved[index] for index in chosen])
                total = sum_of([*terms, *slope])
                mean = self.attention.means(total)
                changes[chosen] = (total - mean).read_again()
                logs[chosen] = (slope[0] - mean if slope else mean.scaled(-1.0)).read_again()
        return changes

    def _logits(self, moved: Sequence[_Moved]) -> list[Approximate]:
        """The derivative of the logits along one displacement or two; nothing where there are more."""
        if len(moved) > 2:
            return []
        one, other = moved[0], moved[-1]
        if len(moved) == 1:
            slopes = one.q @ self.k.transposed() + self.q @ one.k.transposed()
        else:
            slopes = one.q @ other.k.transposed() + other.q @ one.k.transposed()
        return [slopes.scaled(self.layer.scale)]

    def _drawn(self, parts: Approximate, points: Approximate) -> Approximate:
        """sum_j P_ij parts_ij points_j."""
        return self.attention.times(parts) @ points

    def _moved(self, displacement: Float[Tensor, "pairs n d"]) -> _Moved:
        shape, groups = displacement.shape[:-1], self.layer.head_groups
        here = TokenMeasure(displacement, self.measure.masses.expand(shape), self.measure.positions.expand(shape))
        moved = project_tangent(self.layer, here, displacement, self.parts)
        units = UNIT * (self.layer.width + 20)
        turned = units if self.layer.rotary is None else units * self.layer.rotary.stretch
        longest = displacement.norm(dim=-1).amax(0)[:, None]
        q, k, v = (
            Approximate.of(field, unit * weight.norm(dim=(-2, -1))[:, None, None] * longest)
            for field, weight, unit in (
                (moved.q, self.layer.query, turned),
                (moved.k, self.layer.key[groups], turned),
                (moved.v, self.layer.value[groups], units),
            )
        )
        return _Moved(q, k, v) if self.layer.sinks is None else _Moved(q, k.with_zero(), v.with_zero())

    def _merged(self, heads: Approximate) -> Outputs:
        """All heads through the output projection."""
        output = self.layer.stacked_output
        error = heads.error + UNIT * (output.shape[0] + 5) * heads.largest
        return Outputs(merge_heads(self.layer, heads.value), output.norm() * error.norm())


def _of_one(value: Float[Tensor, "heads n k"], error: Float[Tensor, "heads"]) -> Approximate:
    """A list of one, known up to one number for each head."""
    return Approximate.of(value[None], error[:, None, None])


def _in_two(chosen: Chosen) -> Iterator[tuple[Chosen, Chosen]]:
    """The ways to part a set in two that are not empty, the block with its first member first."""
    first, *others = chosen
    for count in range(len(others)):
        for block in combinations(others, count):
            yield (first, *block), tuple(each for each in others if each not in block)

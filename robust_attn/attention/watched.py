"""A layer that tells how often it is evaluated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure

if TYPE_CHECKING:
    from robust_attn.attention.jacobian import LayerJacobian


@final
@dataclass(frozen=True, eq=False)
class WatchedLayer(AttentionLayer):
    """The same layer, which calls `evaluated` whenever its derivative is asked for.

    A step of an ascent is one derivative, so whoever hands this layer to an attack sees its steps, while the attack
    knows nothing of it. Heads and other precisions made from it are watched too.
    """

    evaluated: Callable[[], None] = field(kw_only=True)

    def linearize(self, measure: TokenMeasure) -> LayerJacobian:
        """The derivative, after the call."""
        self.evaluated()
        return super().linearize(measure)


def watched(layer: AttentionLayer, evaluated: Callable[[], None]) -> WatchedLayer:
    """`layer` with an observer. It shares all tensors with it, those that it keeps for speed included."""
    twin = object.__new__(WatchedLayer)
    twin.__dict__.update(layer.__dict__, evaluated=evaluated)
    return twin

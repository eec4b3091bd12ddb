"""What a layer may add to its logits: a bias by positions, and one more key that no token is (an attention sink)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from robust_attn.attention.measure import TokenMeasure


@final
@dataclass(frozen=True, eq=False)
class PositionBias:
    """b_h(p, q), added to the logit of an atom at position p that looks at one at position q; tokens do not change it.

    The table has the positions from 0 to its length - 1. Copies of a token share its position, so they share its bias.
    """

    table: Float[Tensor, "heads length length"]

    def __post_init__(self) -> None:
        if self.table.ndim != 3 or self.table.shape[-1] != self.table.shape[-2] or not self.table.isfinite().all():
            raise ValueError(
                f"a bias table must be finite and of the shape [heads, positions, positions], got "
                f"{tuple(self.table.shape)}; what is hidden belongs to the mask"
            )

    @property
    def length(self) -> int:
        """How many positions the table has."""
        return self.table.shape[-1]

    @property
    def size(self) -> Float[Tensor, "heads"]:
        """The largest |b_h(p, q)| of each head."""
        return self.table.abs().amax((-2, -1))

    def between(
        self, positions: Int[Tensor, "*batch n"], rows: slice = slice(None)
    ) -> Float[Tensor, "*batch heads _ n"]:
        """The bias of every pair of atoms; a position that the table does not have is refused."""
        if positions.numel() and not 0 <= int(positions.min()) <= int(positions.max()) < self.length:
            raise ValueError(
                f"this layer's bias table has positions 0 to {self.length - 1}, got positions "
                f"{int(positions.min())} to {int(positions.max())}"
            )
        return self.table[:, positions[..., rows, None], positions[..., None, :]].movedim(0, -3)

    def head(self, head: int) -> PositionBias:
        """The table of one head."""
        return PositionBias(self.table[head : head + 1])

    def to(self, kind: torch.dtype | torch.device) -> PositionBias:
        """The same numbers in another precision, or on another device."""
        return PositionBias(self.table.to(kind))


@final
@dataclass(frozen=True, eq=False)
class Sinks:
    """One more key per head, of a logit and a value that no token changes; every row sees it.

    It has the mass of an average token, one over the number of positions that have mass: so for tokens of equal mass
    the denominator of the softmax is sum_j e^{s_ij} + e^{logit_h}, and splitting a token changes nothing.
    Where biases of values are in the layer's offset, `value` is what the sink has less than that: minus the bias.
    """

    logit: Float[Tensor, "heads"]
    value: Float[Tensor, "heads value_width"]

    def __post_init__(self) -> None:
        if self.logit.shape != self.value.shape[:1] or not (
            self.logit.isfinite().all() and self.value.isfinite().all()
        ):
            raise ValueError(
                f"sinks need a finite logit and a finite value for every head, got logits {tuple(self.logit.shape)} "
                f"and values {tuple(self.value.shape)}"
            )

    def log_weight(self, measure: TokenMeasure) -> Float[Tensor, "*batch heads"]:
        """The sink's logit and the logarithm of its mass: what stands beside s_ij + log m_j."""
        return self.logit - measure.tokens.to(self.logit.dtype).log()[..., None]

    def head(self, head: int) -> Sinks:
        """The sink of one head."""
        return Sinks(self.logit[head : head + 1], self.value[head : head + 1])

    def to(self, kind: torch.dtype | torch.device) -> Sinks:
        """The same numbers in another precision, or on another device."""
        return Sinks(self.logit.to(kind), self.value.to(kind))

"""Norms of queries and keys: an RMS norm of every head vector, or of those of all heads together.

A layer norm is the RMS norm of vectors whose mean was taken off, which the weights of the projection do already
(docs/proofs/operator.md#query-and-key-norms).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

CURVATURE = 2 / math.sqrt(3)
"""|D^2 N| <= CURVATURE / (sqrt(k) rho^2), whatever eps is."""


@final
@dataclass(frozen=True, eq=False)
class HeadNorm:
    """N(z) = gain * z / rho + shift with rho = (|z|^2 / k + eps)^{1/2}; k is the number of coordinates of z.

    `blocks` are heads for queries and groups for keys. With `across` z is the vector of all blocks together. The norm
    stands before the rotation, or with `after_rotation` behind it.
    """

    gain: Float[Tensor, "blocks width"]
    shift: Float[Tensor, "blocks width"]
    eps: float
    across: bool = False
    after_rotation: bool = False

    def __post_init__(self) -> None:
        if not self.eps >= 1e-20 or self.gain.shape != self.shift.shape:
            raise ValueError(
                f"a norm of queries or keys needs an eps above 1e-20 and a shift as long as its gain, got {self.eps}, "
                f"{tuple(self.gain.shape)} and {tuple(self.shift.shape)}"
            )

    @property
    def coordinates(self) -> int:
        """k: over how many coordinates the mean of squares is taken."""
        return self.gain.numel() if self.across else self.gain.shape[-1]

    @property
    def largest_gain(self) -> Float[Tensor, "blocks"]:
        """max |gain| of every block."""
        return self.gain.abs().amax(-1)

    @property
    def largest(self) -> Float[Tensor, "blocks"]:
        """What the length of N(z) never exceeds, for every z."""
        return math.sqrt(self.coordinates) * self.largest_gain + self.shift.norm(dim=-1)

    def squares(self, raw: Float[Tensor, "*batch blocks n width"]) -> Float[Tensor, "*batch some n 1"]:
        """|z|^2, of every block or of all together."""
        squares = raw.square().sum(-1, keepdim=True)
        return squares.sum(-3, keepdim=True) if self.across else squares

    def root(self, squares: Tensor) -> Tensor:
        """rho where |z|^2 is given."""
        return (squares / self.coordinates + self.eps).sqrt()

    def __call__(self, raw: Float[Tensor, "*batch blocks n width"]) -> Float[Tensor, "*batch blocks n width"]:
        """N of every vector."""
        return self.gain[:, None] * (raw / self.root(self.squares(raw))) + self.shift[:, None]

    def push(
        self, raw: Float[Tensor, "*batch blocks n width"], tangent: Float[Tensor, "*batch blocks n width"]
    ) -> Float[Tensor, "*batch blocks n width"]:
        """DN(z) tangent = gain * (I - z z^T / (k rho^2)) tangent / rho."""
        return self.gain[:, None] * self._projected(raw, tangent)

    def pull(
        self, raw: Float[Tensor, "*batch blocks n width"], cotangent: Float[Tensor, "*batch blocks n width"]
    ) -> Float[Tensor, "*batch blocks n width"]:
        """The transpose of `push`."""
        return self._projected(raw, self.gain[:, None] * cotangent)

    def _projected(self, raw: Tensor, field: Tensor) -> Tensor:
        root = self.root(self.squares(raw))
        inner = (raw * field).sum(-1, keepdim=True)
        inner = inner.sum(-3, keepdim=True) if self.across else inner
        return (field - raw * (inner / (self.coordinates * root.square()))) / root

    def head(self, head: int) -> HeadNorm:
        """The norm of one block, which has to stand by itself."""
        return replace(self, gain=self.gain[head : head + 1], shift=self.shift[head : head + 1])

    def to(self, kind: torch.dtype | torch.device) -> HeadNorm:
        """The same numbers in another precision, or on another device."""
        return replace(self, gain=self.gain.to(kind), shift=self.shift.to(kind))

"""Rotary position embeddings: a fixed rotation of queries and keys that depends on the position alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Rotary:
    """Rotation of each head vector by position times frequency, in the half-split layout of Llama.

    Angles, sines and cosines are computed in float32 and then converted, exactly as Llama models do in every precision.
    `scaling` multiplies them (1 except for the long-context variants); the map is then a rotation times `scaling`.
    """

    inverse_frequencies: Float[Tensor, "half"]
    scaling: float = 1.0

    @property
    def stretch(self) -> float:
        """No vector grows by more: |scaling|, and what float32 makes of cos^2 + sin^2 = 1."""
        return abs(self.scaling) * (1 + 4 * torch.finfo(torch.float32).eps)

    def rotate(
        self, vectors: Float[Tensor, "*batch heads n width"], positions: Int[Tensor, "*batch n"]
    ) -> Float[Tensor, "*batch heads n width"]:
        """Head vectors turned by the angle of their position."""
        return self._turn(vectors, positions, sign=1.0)

    def rotate_back(
        self, vectors: Float[Tensor, "*batch heads n width"], positions: Int[Tensor, "*batch n"]
    ) -> Float[Tensor, "*batch heads n width"]:
        """The transposed map (the inverse rotation, times `scaling`)."""
        return self._turn(vectors, positions, sign=-1.0)

    def _turn(self, vectors: Tensor, positions: Tensor, sign: float) -> Tensor:
        angles = positions[..., None].float() * self.inverse_frequencies.float()
        cosine = (angles.cos() * self.scaling).to(vectors.dtype).unsqueeze(-3)
        sine = (sign * angles.sin() * self.scaling).to(vectors.dtype).unsqueeze(-3)
        first, second = vectors.chunk(2, dim=-1)
        return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)

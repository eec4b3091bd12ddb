"""Rotary position embeddings: a fixed rotation of queries and keys that depends on the position alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Rotation(ABC):
    """R_p for every position p: head coordinate i is turned against coordinate i + half, each plane by its own angle.

    Other layouts (neighbouring coordinates as planes, coordinates that are not turned) are this one after head
    coordinates of queries and keys have been put in another order, which changes no logit; an angle of zero turns
    nothing.
    """

    scaling: float
    """No exact R_p makes a vector longer than this many times; one for rotations proper."""

    @abstractmethod
    def waves(self, positions: Int[Tensor, "*batch n"]) -> tuple[Float[Tensor, "*batch n half"], Tensor]:
        """Cosines and sines at the positions, in the precision in which they are defined."""

    @abstractmethod
    def on(self, device: torch.device) -> Rotation:
        """The same rotation on another device."""

    @property
    def stretch(self) -> float:
        """No vector grows by more: |scaling|, and what float32 makes of cos^2 + sin^2 = 1."""
        return abs(self.scaling) * (1 + 4 * torch.finfo(torch.float32).eps)

    @final
    def rotate(
        self, vectors: Float[Tensor, "*batch heads n width"], positions: Int[Tensor, "*batch n"]
    ) -> Float[Tensor, "*batch heads n width"]:
        """Head vectors turned by the angle of their position."""
        return self._turn(vectors, positions, sign=1.0)

    @final
    def rotate_back(
        self, vectors: Float[Tensor, "*batch heads n width"], positions: Int[Tensor, "*batch n"]
    ) -> Float[Tensor, "*batch heads n width"]:
        """The transposed map (the inverse rotation, times `scaling`)."""
        return self._turn(vectors, positions, sign=-1.0)

    def _turn(self, vectors: Tensor, positions: Tensor, sign: float) -> Tensor:
        cosine, sine = (wave.to(vectors.dtype).unsqueeze(-3) for wave in self.waves(positions))
        first, second = vectors.chunk(2, dim=-1)
        sine = sign * sine
        return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


@final
@dataclass(frozen=True, eq=False)
class Rotary(Rotation):
    """Rotation of each head vector by position times frequency, in the half-split layout of Llama.

    Angles, sines and cosines are computed in float32 and then converted, exactly as Llama models do in every precision.
    `scaling` multiplies them (1 except for the long-context variants); the map is then a rotation times `scaling`.
    """

    inverse_frequencies: Float[Tensor, "half"]
    scaling: float = 1.0

    def on(self, device: torch.device) -> Rotary:
        """With the frequencies there."""
        return Rotary(self.inverse_frequencies.to(device), self.scaling)

    def waves(self, positions: Int[Tensor, "*batch n"]) -> tuple[Float[Tensor, "*batch n half"], Tensor]:
        """Cosines and sines in float32, times `scaling`."""
        angles = positions[..., None].float() * self.inverse_frequencies.float()
        return angles.cos() * self.scaling, angles.sin() * self.scaling


@final
@dataclass(frozen=True, eq=False)
class RotaryTable(Rotation):
    """Rotations by a table: one row of cosines and one of sines per position, from 0 to the table's length - 1.

    For angles that are not a position times a frequency: patches of an image, positions with several parts. A row need
    not have cos^2 + sin^2 = 1; `scaling` is the root of the largest such sum, so no vector grows by more.
    """

    cosine: Float[Tensor, "length half"]
    sine: Float[Tensor, "length half"]

    def __post_init__(self) -> None:
        if self.cosine.shape != self.sine.shape or not self.cosine.isfinite().all() or not self.sine.isfinite().all():
            raise ValueError(
                f"cosines {tuple(self.cosine.shape)} and sines {tuple(self.sine.shape)} of a rotary table must be "
                "finite and of one shape, [positions, planes]"
            )

    @classmethod
    def of_angles(cls, angles: Float[Tensor, "length half"]) -> RotaryTable:
        """The table of given angles."""
        return cls(angles.cos(), angles.sin())

    def on(self, device: torch.device) -> RotaryTable:
        """With the table there."""
        return RotaryTable(self.cosine.to(device), self.sine.to(device))

    @property
    def length(self) -> int:
        """How many positions the table has."""
        return self.cosine.shape[0]

    @cached_property
    def scaling(self) -> float:  # type: ignore[override]
        """The largest (cos^2 + sin^2)^{1/2} of the table, rounded upwards."""
        return float(torch.hypot(self.cosine.double(), self.sine.double()).max()) * (1 + 1e-15)

    def waves(self, positions: Int[Tensor, "*batch n"]) -> tuple[Float[Tensor, "*batch n half"], Tensor]:
        """The rows of the positions; a position that the table does not have is refused."""
        if positions.numel() and not 0 <= int(positions.min()) <= int(positions.max()) < self.length:
            raise ValueError(
                f"this layer's rotary table has positions 0 to {self.length - 1}, got positions "
                f"{int(positions.min())} to {int(positions.max())}"
            )
        return self.cosine[positions], self.sine[positions]

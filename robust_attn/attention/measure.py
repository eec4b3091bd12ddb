"""Token measures: weighted points with positions, the input of an attention layer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

MASS_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class TokenMeasure:
    """The measure mu = sum_i m_i delta_{x_i}, each atom at a position in the sequence; leading axes are samples.

    Masses of a sample sum to one. An atom of mass zero is **padding**: nobody attends to it, it may not move, and its
    output counts for nothing. Copies of a token share its position, so under a causal mask they see each other.
    """

    points: Float[Tensor, "*batch n d"]
    masses: Float[Tensor, "*batch n"]
    positions: Int[Tensor, "*batch n"]

    def __post_init__(self) -> None:
        if self.points.shape[:-1] != self.masses.shape or self.masses.shape != self.positions.shape:
            raise ValueError(
                f"points {tuple(self.points.shape)}, masses {tuple(self.masses.shape)} and positions "
                f"{tuple(self.positions.shape)} must agree in every axis but the last of points"
            )

    @classmethod
    def uniform(cls, points: Float[Tensor, "*batch n d"]) -> TokenMeasure:
        """Equal masses, positions 0..n-1."""
        length = points.shape[-2]
        return cls.weighted(points, torch.full_like(points[..., 0], 1.0 / length))

    @classmethod
    def weighted(cls, points: Float[Tensor, "*batch n d"], masses: Float[Tensor, "*#batch n"]) -> TokenMeasure:
        """Given masses (non-negative, summing to one in each sample), positions 0..n-1."""
        masses = masses.to(points.dtype).expand(points.shape[:-1])
        total = masses.sum(-1)
        if bool((masses < 0).any()) or bool(((total - 1).abs() > MASS_TOLERANCE).any()):
            raise ValueError(f"masses must be non-negative and sum to one, got sums {total.flatten().tolist()}")
        positions = torch.arange(points.shape[-2], device=points.device).expand(points.shape[:-1])
        return cls(points, masses, positions)

    @classmethod
    def padded(cls, points: Float[Tensor, "*batch n d"], lengths: Int[Tensor, "*batch"]) -> TokenMeasure:
        """Equal masses on the first `lengths` tokens of each sample, padding (mass zero) after them."""
        index = torch.arange(points.shape[-2], device=points.device)
        present = (index < lengths[..., None]).to(points.dtype)
        return cls.weighted(points, present / present.sum(-1, keepdim=True))

    @property
    def length(self) -> int:
        """Number of atoms of a sample."""
        return self.points.shape[-2]

    @property
    def width(self) -> int:
        """Dimension of a token."""
        return self.points.shape[-1]

    @property
    def present(self) -> Tensor:
        """True where an atom has mass, False where it is padding."""
        return self.masses > 0

    @property
    def radius(self) -> Float[Tensor, "*batch"]:
        """The largest norm of a token with mass, per sample."""
        norms = self.points.norm(dim=-1)
        return torch.where(self.present, norms, torch.zeros_like(norms)).amax(-1)

    @property
    def is_uniform(self) -> bool:
        """Whether every atom of every sample has the same mass."""
        return bool((self.masses == self.masses[..., :1]).all())

    def split(self, copies: int) -> TokenMeasure:
        """Each token as `copies` adjacent atoms of equal mass at its own place and position: the same measure."""
        if copies < 1:
            raise ValueError(f"copies must be at least 1, got {copies}")
        return TokenMeasure(
            self.points.repeat_interleave(copies, dim=-2),
            self.masses.repeat_interleave(copies, dim=-1) / copies,
            self.positions.repeat_interleave(copies, dim=-1),
        )

    def with_points(self, points: Float[Tensor, "*batch n d"]) -> TokenMeasure:
        """The same masses and positions at other points."""
        return replace(self, points=points)

    def sample(self, index: int) -> TokenMeasure:
        """Sample `index` of a batched measure."""
        return TokenMeasure(self.points[index], self.masses[index], self.positions[index])

    def to(self, dtype: torch.dtype) -> TokenMeasure:
        """Points and masses in another precision; masses are renormalised to sum to one there."""
        masses = self.masses.to(dtype)
        return replace(self, points=self.points.to(dtype), masses=masses / masses.sum(-1, keepdim=True))


def stack(measures: list[TokenMeasure]) -> TokenMeasure:
    """Samples of equal length as one batched measure."""
    return TokenMeasure(
        torch.stack([measure.points for measure in measures]),
        torch.stack([measure.masses for measure in measures]),
        torch.stack([measure.positions for measure in measures]),
    )

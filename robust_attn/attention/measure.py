"""Token measures: weighted points with positions, the input of an attention layer."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from robust_attn.attention.places import able

MASS_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class TokenMeasure:
    """The measure mu = sum_i m_i delta_{x_i}, each atom at a position in the sequence; leading axes are samples.

    Masses of a sample sum to one. `weighted`, `padded` and `to` see to it; the constructor looks at shapes alone, as
    it is called in every step of an attack and inside transforms that have no values to look at. An atom of mass zero
    is **padding**: nobody attends to it, it may not move, and its output counts for nothing. Copies of a token share
    its position, so under a causal mask they see each other.
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
        if not length:
            raise ValueError(f"a measure needs at least one token, got points {tuple(points.shape)}")
        return cls.weighted(points, torch.full_like(points[..., 0], 1.0 / length))

    @classmethod
    def weighted(cls, points: Float[Tensor, "*batch n d"], masses: Float[Tensor, "*#batch n"]) -> TokenMeasure:
        """Given masses (finite, non-negative, summing to one in each sample), positions 0..n-1."""
        masses = masses.to(points.dtype).expand(points.shape[:-1])
        total = masses.sum(-1)
        if not bool((masses >= 0).all()) or not bool(((total - 1).abs() <= MASS_TOLERANCE).all()):
            raise ValueError(
                f"masses must be finite and non-negative and sum to one in every sample, got {_described(masses)}"
            )
        positions = torch.arange(points.shape[-2], device=points.device).expand(points.shape[:-1])
        return cls(points, masses, positions)

    @classmethod
    def padded(cls, points: Float[Tensor, "*batch n d"], lengths: Int[Tensor, "*batch"]) -> TokenMeasure:
        """Equal masses on the first `lengths` tokens of each sample, padding (mass zero) after them."""
        if not bool(((lengths >= 1) & (lengths <= points.shape[-2])).all()):
            raise ValueError(f"lengths must lie between 1 and {points.shape[-2]}, got {lengths.flatten().tolist()}")
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
    def tokens(self) -> Int[Tensor, "*batch"]:
        """How many positions have mass, per sample: copies of a token count once, padding does not."""
        present = self.present
        ordered = torch.where(present, self.positions, torch.iinfo(self.positions.dtype).max).sort(-1).values
        places = (ordered.diff(dim=-1) != 0).sum(-1) + 1
        return places - (~present).any(-1).to(places.dtype)

    @property
    def radius(self) -> Float[Tensor, "*batch"]:
        """The largest norm of a token with mass, per sample."""
        norms = self.points.norm(dim=-1)
        return torch.where(self.present, norms, torch.zeros_like(norms)).amax(-1)

    @property
    def is_uniform(self) -> bool:
        """Whether every atom of every sample has the same mass."""
        return bool((self.masses == self.masses[..., :1]).all())

    def merged(self) -> tuple[TokenMeasure, int]:
        """The measure of which this is `split(copies)`, every sample alike, and the largest such number of copies."""
        for copies in range(self.length, 1, -1):
            if self.length % copies == 0 and self._written_as(copies):
                return TokenMeasure(
                    self.points[..., ::copies, :], self.masses[..., ::copies] * copies, self.positions[..., ::copies]
                ), copies
        return self, 1

    def _written_as(self, copies: int) -> bool:
        """Whether adjacent atoms are, so many at a time, the same atom."""
        fields = (self.masses[..., None], self.positions[..., None], self.points)
        groups = (field.unflatten(-2, (-1, copies)) for field in fields)
        return all(bool((group == group[..., :1, :]).all()) for group in groups)

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

    def without_padding(self) -> TokenMeasure:
        """The atoms of one sample that have mass."""
        kept = self.present
        return TokenMeasure(self.points[kept], self.masses[kept], self.positions[kept])

    def on(self, device: torch.device) -> TokenMeasure:
        """The same measure on another device."""
        return TokenMeasure(self.points.to(device), self.masses.to(device), self.positions.to(device))

    def to(self, dtype: torch.dtype) -> TokenMeasure:
        """Points and masses in another precision; masses are renormalised to sum to one there.

        Where the device has no float64, float64 means on the CPU.

        Whatever is certified or observed comes through here, so here masses are looked at that nobody has looked at
        before: those of a measure that was built from its parts.
        """
        here = able(self.points.device, dtype)
        masses = self.masses.to(here, dtype)
        total = masses.sum(-1, keepdim=True)
        if not bool((masses >= 0).all()) or not bool(((total > 0) & total.isfinite()).all()):
            raise ValueError(
                "masses must be finite and non-negative and have a positive sum in every sample, got "
                f"{_described(masses)}"
            )
        return TokenMeasure(self.points.to(here, dtype), masses / total, self.positions.to(here))


def _described(masses: Float[Tensor, "*batch n"]) -> str:
    """The smallest mass and the sums, enough to see what is wrong with them."""
    smallest = float(masses.min()) if masses.numel() else math.nan
    return f"a smallest mass of {smallest:g} and sums {masses.sum(-1).flatten().tolist()}"


def expect_measure(given: object) -> None:
    """A ValueError that says what to do if something else than a measure was given, such as its points."""
    if not isinstance(given, TokenMeasure):
        raise ValueError(
            f"expected a TokenMeasure, for points TokenMeasure.uniform(points); got {type(given).__name__}"
        )


def stack(measures: list[TokenMeasure]) -> TokenMeasure:
    """Samples of equal length as one batched measure."""
    return TokenMeasure(
        torch.stack([measure.points for measure in measures]),
        torch.stack([measure.masses for measure in measures]),
        torch.stack([measure.positions for measure in measures]),
    )

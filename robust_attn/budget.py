"""Perturbation budgets: a norm on displacement fields and a radius. The output change is measured in the same norm."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.places import standard_normal
from robust_attn.types import FieldError

CONTAINS_TOLERANCE = 1e-9
EDGE, EDGE_SINGLE = 1e-9, 1e-6
"""Relative distance from a sphere below which a point counts as being on it, in float64 and in single precision."""


@final
@dataclass(frozen=True)
class TokenRadius:
    """As a budget's `support`: every sample's own largest token norm."""


@dataclass(frozen=True)
class Budget(ABC):
    """All displacements of a measure's atoms whose norm is at most `radius`; padding never moves.

    With a `support` all atoms also stay in the centred ball of that radius, where they must be before they move.
    """

    radius: float
    support: float | TokenRadius | None = None
    kind: ClassVar[str]

    def __post_init__(self) -> None:
        if not (math.isfinite(self.radius) and self.radius >= 0):
            raise FieldError("radius", f"must be a finite number that is not negative, got {self.radius}.")
        if isinstance(self.support, int | float) and not self.support > 0:
            raise FieldError("support", f"must be a number above zero, got {self.support}.")

    @abstractmethod
    def norm(self, field: Float[Tensor, "*batch n d"], measure: TokenMeasure) -> Float[Tensor, "*batch"]:
        """The size of a displacement of inputs or outputs of the measure's atoms."""

    @abstractmethod
    def norm_gradient(self, field: Float[Tensor, "*batch n d"], measure: TokenMeasure) -> Float[Tensor, "*batch n d"]:
        """A (sub)gradient of `norm` at the field; zero where the field is zero."""

    @abstractmethod
    def steepest(self, gradient: Float[Tensor, "*batch n d"], measure: TokenMeasure) -> Float[Tensor, "*batch n d"]:
        """The displacement inside the budget with the largest inner product with `gradient`."""

    @abstractmethod
    def _scaled_back(self, field: Float[Tensor, "*batch n d"], measure: TokenMeasure) -> Float[Tensor, "*batch n d"]:
        """The displacement of norm at most `radius` nearest to `field` in the budget's own norm; padding stays."""

    @abstractmethod
    def weights(self, measure: TokenMeasure) -> Float[Tensor, "*batch n"]:
        """Weights w such that norm^2 <= sum_i w_i |field_i|^2 for outputs: the Hilbert norm in which bounds work."""

    @abstractmethod
    def hilbert_radius(self, measure: TokenMeasure) -> float:
        """The smallest known rho such that sum_i w_i |field_i|^2 <= rho^2 on the whole budget."""

    def project(self, field: Float[Tensor, "*batch n d"], measure: TokenMeasure) -> Float[Tensor, "*batch n d"]:
        """A displacement inside the budget: the nearest of norm `radius`, then every atom radially into the support.

        The second step leaves no budget, because the nearest point of a ball is no farther from a point of that ball;
        scaling once more undoes what rounding may have added.
        """
        field = self._scaled_back(field, measure)
        if self.support is None:
            return field
        limit = self.support_radius(measure)[..., None]
        points = measure.points + field
        sizes = points.norm(dim=-1)
        outside = measure.present & (sizes > limit)
        inside = points * (limit / torch.where(outside, sizes, limit))[..., None] - measure.points
        return self._scaled_back(torch.where(outside[..., None], inside, field), measure)

    def contains(self, field: Float[Tensor, "*batch n d"], measure: TokenMeasure) -> Bool[Tensor, "*batch"]:
        """Whether a displacement is inside, up to rounding; padding must stay where it is."""
        still = (torch.where(measure.present[..., None], torch.zeros_like(field), field) == 0).flatten(-2).all(-1)
        supported = measure.with_points(measure.points + field).radius <= self.support_radius(measure) * (
            1 + CONTAINS_TOLERANCE
        )
        return still & supported & (self.norm(field, measure) <= self.radius * (1 + CONTAINS_TOLERANCE))

    def support_radius(self, measure: TokenMeasure) -> Float[Tensor, "*batch"]:
        """The largest norm that an atom may have, per sample; infinite without a support."""
        largest = measure.radius
        if self.support is None:
            return torch.full_like(largest, math.inf)
        if isinstance(self.support, TokenRadius):
            return largest
        if bool((largest > self.support * (1 + CONTAINS_TOLERANCE)).any()):
            raise FieldError("support", f"is {self.support}, but a token has norm {float(largest.max()):.6g}.")
        return torch.full_like(largest, self.support)

    def slope(
        self, gradient: Float[Tensor, "*batch n d"], field: Float[Tensor, "*batch n d"], measure: TokenMeasure
    ) -> Float[Tensor, "*batch n d"]:
        """The gradient at a displacement inside, in the coordinates sqrt(w_i) field_i, without what leaves at once.

        That is the part that points out where the displacement is at the edge of the budget, or an atom at that of the
        support.
        """
        roots = self.weights(measure).sqrt()[..., None]
        scaled = torch.where(roots > 0, gradient / torch.where(roots > 0, roots, 1.0), 0.0)
        free = self._inward(scaled, roots * field, self.norm(field, measure))
        if self.support is None:
            return free
        points = measure.points + field
        at_edge = points.norm(dim=-1) >= self.support_radius(measure)[..., None] * (1 - _edge(points))
        return _without_outward(free, points, at_edge, (-1,))

    @abstractmethod
    def _inward(
        self, slope: Float[Tensor, "*batch n d"], place: Float[Tensor, "*batch n d"], size: Float[Tensor, "*batch"]
    ) -> Float[Tensor, "*batch n d"]:
        """The slope at `place`, both in the coordinates sqrt(w_i) field_i, without what would increase the norm."""

    def reach(self, measure: TokenMeasure) -> Float[Tensor, "*batch n"]:
        """How far each atom can move by itself, at most to the far side of the support; zero for padding."""
        across = measure.points.norm(dim=-1) + self.support_radius(measure)[..., None]
        return torch.where(measure.present, torch.minimum(self._free_reach(measure), across), 0.0)

    def _free_reach(self, measure: TokenMeasure) -> Float[Tensor, "*batch n"]:
        """How far each atom with mass can move if there is no support."""
        weights = self.weights(measure)
        return torch.where(weights > 0, self.hilbert_radius(measure) * weights.rsqrt(), torch.zeros_like(weights))

    def sample(self, measure: TokenMeasure, generator: torch.Generator) -> Float[Tensor, "*batch n d"]:
        """A random displacement on the boundary: a standard normal field, scaled."""
        noise = standard_normal(measure.points.shape, generator, measure.points)
        return self.steepest(noise, measure)


class _Hilbert(Budget):
    """Budgets whose norm is (sum_i w_i |field_i|^2)^{1/2}."""

    def norm(self, field: Float[Tensor, "*batch n d"], measure: TokenMeasure) -> Float[Tensor, "*batch"]:
        """(sum_i w_i |field_i|^2)^{1/2}."""
        return (self.weights(measure).sqrt()[..., None] * field).flatten(-2).norm(dim=-1)

    def norm_gradient(self, field: Float[Tensor, "*batch n d"], measure: TokenMeasure) -> Float[Tensor, "*batch n d"]:
        """w_i field_i / norm."""
        size = self.norm(field, measure)[..., None, None]
        return self.weights(measure)[..., None] * field / torch.where(size > 0, size, torch.ones_like(size))

    def steepest(self, gradient: Float[Tensor, "*batch n d"], measure: TokenMeasure) -> Float[Tensor, "*batch n d"]:
        """The multiple of gradient_i / w_i of norm `radius`."""
        weights = self.weights(measure)[..., None]
        natural = torch.where(weights > 0, gradient / weights.clamp_min(torch.finfo(weights.dtype).tiny), 0.0)
        size = self.norm(natural, measure)[..., None, None]
        return self.radius * natural / torch.where(size > 0, size, torch.ones_like(size))

    def _scaled_back(self, field: Float[Tensor, "*batch n d"], measure: TokenMeasure) -> Float[Tensor, "*batch n d"]:
        """Radial scaling: the nearest point of a ball."""
        field = torch.where(measure.present[..., None], field, torch.zeros_like(field))
        size = self.norm(field, measure)[..., None, None]
        return field * torch.where(size > self.radius, self.radius / size, 1.0)

    def hilbert_radius(self, measure: TokenMeasure) -> float:  # noqa: ARG002
        """The radius itself."""
        return self.radius

    def _inward(
        self, slope: Float[Tensor, "*batch n d"], place: Float[Tensor, "*batch n d"], size: Float[Tensor, "*batch"]
    ) -> Float[Tensor, "*batch n d"]:
        """One sphere for all atoms together."""
        return _without_outward(slope, place, size >= self.radius * (1 - _edge(size)), (-2, -1))


@final
@dataclass(frozen=True)
class Wasserstein(_Hilbert):
    """(sum_i m_i |field_i|^2)^{1/2} <= radius: the index coupling shows W2(mu, nu) <= radius."""

    kind: ClassVar[str] = "wasserstein"

    def weights(self, measure: TokenMeasure) -> Float[Tensor, "*batch n"]:
        """The masses."""
        return measure.masses


@final
@dataclass(frozen=True)
class Frobenius(_Hilbert):
    """(sum_i |field_i|^2)^{1/2} <= radius, over the atoms that have mass."""

    kind: ClassVar[str] = "frobenius"

    def weights(self, measure: TokenMeasure) -> Float[Tensor, "*batch n"]:
        """One for every atom with mass."""
        return measure.present.to(measure.points.dtype)


@final
@dataclass(frozen=True)
class PerToken(Budget):
    """Every atom moves by at most radius; the output change is that of the atom that changes most."""

    kind: ClassVar[str] = "per_token"

    def norm(self, field: Float[Tensor, "*batch n d"], measure: TokenMeasure) -> Float[Tensor, "*batch"]:
        """max_i |field_i| over atoms with mass."""
        return self._sizes(field, measure).amax(-1)

    def norm_gradient(self, field: Float[Tensor, "*batch n d"], measure: TokenMeasure) -> Float[Tensor, "*batch n d"]:
        """The unit vector of the largest row, zero elsewhere."""
        sizes = self._sizes(field, measure)
        largest = torch.nn.functional.one_hot(sizes.argmax(-1), sizes.shape[-1]).to(field.dtype)
        safe = torch.where(sizes > 0, sizes, torch.ones_like(sizes))
        return field / safe[..., None] * largest[..., None]

    def steepest(self, gradient: Float[Tensor, "*batch n d"], measure: TokenMeasure) -> Float[Tensor, "*batch n d"]:
        """Every atom moves by radius along its own gradient."""
        sizes = self._sizes(gradient, measure)
        # Divided first: radius / size is infinite where the gradient is subnormal, and infinity times zero no number.
        unit = gradient / torch.where(sizes > 0, sizes, torch.ones_like(sizes))[..., None]
        return torch.where(sizes[..., None] > 0, self.radius * unit, 0.0)

    def _scaled_back(self, field: Float[Tensor, "*batch n d"], measure: TokenMeasure) -> Float[Tensor, "*batch n d"]:
        """Every atom scaled back to radius by itself."""
        field = torch.where(measure.present[..., None], field, torch.zeros_like(field))
        sizes = self._sizes(field, measure)[..., None]
        return field * torch.where(sizes > self.radius, self.radius / sizes, 1.0)

    def weights(self, measure: TokenMeasure) -> Float[Tensor, "*batch n"]:
        """One for every atom with mass: the largest row is below the Frobenius norm."""
        return measure.present.to(measure.points.dtype)

    def hilbert_radius(self, measure: TokenMeasure) -> float:
        """radius sqrt(n), n the largest number of atoms with mass."""
        return self.radius * math.sqrt(int(measure.present.sum(-1).max()))

    def _free_reach(self, measure: TokenMeasure) -> Float[Tensor, "*batch n"]:
        """The radius."""
        return self.radius * measure.present.to(measure.points.dtype)

    def _inward(
        self,
        slope: Float[Tensor, "*batch n d"],
        place: Float[Tensor, "*batch n d"],
        size: Float[Tensor, "*batch"],  # noqa: ARG002
    ) -> Float[Tensor, "*batch n d"]:
        """A sphere for every atom."""
        return _without_outward(slope, place, place.norm(dim=-1) >= self.radius * (1 - _edge(place)), (-1,))

    def _sizes(self, field: Tensor, measure: TokenMeasure) -> Tensor:
        sizes = field.norm(dim=-1)
        return torch.where(measure.present, sizes, torch.zeros_like(sizes))


def expect_budget(given: object) -> None:
    """A ValueError that says what to do if something else than a budget was given, such as its radius."""
    if not isinstance(given, Budget):
        raise ValueError(f"expected a budget, such as Wasserstein(0.01); got {given!r}")


BUDGETS: dict[str, type[Budget]] = {budget.kind: budget for budget in (Wasserstein, Frobenius, PerToken)}


def _edge(like: Tensor) -> float:
    """How near to a sphere a point may be rounded that was put on it."""
    return EDGE if like.dtype == torch.float64 else EDGE_SINGLE


def _without_outward(slope: Tensor, place: Tensor, at_edge: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The slope minus its part along `place`, over the axes given, where that points out at the edge."""
    squared = place.square().sum(axes, keepdim=True)
    outward = (slope * place).sum(axes, keepdim=True) / torch.where(squared > 0, squared, 1.0)
    stays = at_edge.reshape(outward.shape) & (outward > 0)
    return slope - torch.where(stays, outward, 0.0) * place

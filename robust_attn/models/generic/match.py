"""Which rows of which linear maps make queries, keys and values: found by comparing numbers, not names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from robust_attn.models.adapter import Affine
from robust_attn.models.generic.events import LinearEvent

TIGHT = 1e-11
"""Largest relative difference between a coordinate and a multiple of an output feature, in float64."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Coordinates of all heads, as rows of linear maps: coordinate i is factors[i] times feature features[i] of
    maps[owners[i]]."""

    maps: tuple[nn.Module, ...]
    owners: Int[Tensor, " m"]
    features: Int[Tensor, " m"]
    factors: Float[Tensor, " m"]
    blocks: int

    @property
    def factor(self) -> float | None:
        """The factor that all coordinates share, None if they have several."""
        first = float(self.factors[0])
        return first if bool((self.factors == first).all()) else None

    def reordered(self, order: Int[Tensor, " width"]) -> Rows:
        """The same rows with the coordinates of every head in another order."""
        index = torch.arange(len(self.features)).view(self.blocks, -1)[:, order].flatten()
        return Rows(self.maps, self.owners[index], self.features[index], self.factors[index], self.blocks)

    def affine(self, *, factors: bool) -> Affine:
        """The rows as stored (a view where they lie side by side), times the factors where asked for."""
        stored = [affine_of(each) for each in self.maps]
        weight = _gathered([each.weight for each in stored], self.owners, self.features)
        bias = _gathered([each.bias_in_blocks(1)[0] for each in stored], self.owners, self.features)
        if not factors:
            return Affine(weight, bias)
        return Affine(weight * self.factors.to(weight)[:, None], bias * self.factors.to(bias))


def affine_of(module: Any) -> Affine:
    """The map of an nn.Linear, or of a Conv1D, which stores outputs as columns."""
    if type(module).__name__ == "Conv1D":
        return Affine(module.weight.detach().T, module.bias.detach())
    return Affine.of(module)


def _gathered(stored: list[Tensor], owners: Tensor, features: Tensor) -> Tensor:
    start, count = int(features[0]), len(features)
    if bool((owners == owners[0]).all()):
        only = stored[int(owners[0])]
        if torch.equal(features, torch.arange(start, start + count)):
            return only[start : start + count]
        return only[features.to(only.device)]
    return torch.stack(
        [stored[owner][feature] for owner, feature in zip(owners.tolist(), features.tolist(), strict=True)]
    )


def matched(heads: Float[Tensor, "samples blocks width"], events: list[LinearEvent], position: int) -> Rows | None:
    """The rows that make the head vectors at a position, None unless every coordinate is a multiple of one feature."""
    fields = [event.made[:, position].double() for event in events]
    features = torch.cat(fields, dim=-1).T
    wanted = heads.double().flatten(1).T
    index = _nearest(wanted, features)
    found = features[index]
    size = found.square().sum(-1)
    factors = torch.where(size > 0, (wanted * found).sum(-1) / size.clamp_min(1e-300), 1.0)
    factors = _plain(factors)
    error = (wanted - factors[:, None] * found).norm(dim=-1)
    if not bool((error <= TIGHT * wanted.norm(dim=-1)).all()):
        return None
    ends = torch.tensor([field.shape[-1] for field in fields]).cumsum(0)
    owners = torch.searchsorted(ends, index, right=True)
    starts = torch.cat((ends.new_zeros(1), ends[:-1]))
    maps = tuple(event.spot.module for event in events)
    return Rows(maps, owners, index - starts[owners], factors, heads.shape[1])


def _nearest(wanted: Float[Tensor, "m samples"], features: Float[Tensor, "f samples"]) -> Int[Tensor, " m"]:
    """The feature most nearly parallel to each wanted vector; one that is zero where the vector is."""
    units = torch.nn.functional.normalize(features, dim=-1)
    likeness = torch.nn.functional.normalize(wanted, dim=-1) @ units.T
    index = likeness.abs().argmax(-1)
    empty = features.square().sum(-1) == 0
    silent = wanted.square().sum(-1) == 0
    if bool(silent.any()) and bool(empty.any()):
        # Rows of zeros are all alike: the how manieth silent coordinate takes the how manieth of them.
        zeros = empty.nonzero()[:, 0]
        index[silent] = zeros[torch.arange(int(silent.sum())) % len(zeros)]
    return index


def _plain(factors: Float[Tensor, " m"]) -> Float[Tensor, " m"]:
    """Factors that differ by rounding are one factor; one that is one up to rounding is one."""
    factors = torch.where((factors - 1).abs() <= 1e-13, 1.0, factors)
    middle = factors.median()
    return torch.where((factors - middle).abs() <= 1e-13 * middle.abs(), middle, factors)

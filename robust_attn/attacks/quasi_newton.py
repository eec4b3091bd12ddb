"""Limited-memory BFGS, batched: a direction uphill from the last steps and how the slope changed along them.

Every sample has a memory of its own. Pairs along which the slope did not fall are left out, so the metric that they
make is positive and the direction goes uphill (Nocedal and Wright 2006, algorithm 7.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

PAIRS = 10
CURVATURE = 1e-10
"""A pair counts if its step and its fall of the slope have a cosine above this."""


@dataclass(frozen=True, eq=False)
class Memory:
    """The last pairs of each sample, oldest first: steps, and by how much the slope fell along them. Zeros are none."""

    steps: tuple[Float[Tensor, "*batch n d"], ...]
    falls: tuple[Float[Tensor, "*batch n d"], ...]
    length: Float[Tensor, "*batch"]
    """<step, fall> / |fall|^2 of the last pair: how far to go per unit of slope where no pair says more; 0 if none."""

    @classmethod
    def empty(cls, like: Float[Tensor, "*batch n d"]) -> Memory:
        """Of no step yet."""
        return cls((), (), like.new_zeros(like.shape[:-2]))

    def with_pair(self, step: Float[Tensor, "*batch n d"], fall: Float[Tensor, "*batch n d"]) -> Memory:
        """One pair more where it counts, and the oldest forgotten there; elsewhere as it was."""
        along = dot(step, fall)
        counts = along > CURVATURE * (dot(step, step) * dot(fall, fall)).sqrt()
        length = torch.where(counts, along / dot(fall, fall).clamp_min(torch.finfo(fall.dtype).tiny), self.length)
        return Memory(_pushed(self.steps, step, counts), _pushed(self.falls, fall, counts), length)

    def only(self, kept: Bool[Tensor, "*batch"]) -> Memory:
        """Nothing of the samples that are not kept."""
        if bool(kept.all()):
            return self
        factor = kept.to(self.length.dtype)
        steps, falls = (tuple(wide(factor) * each for each in stack) for stack in (self.steps, self.falls))
        return Memory(steps, falls, factor * self.length)

    def direction(self, slope: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n d"]:
        """Uphill in the metric of the pairs; zero where there is none."""
        alongs = [dot(step, fall) for step, fall in zip(self.steps, self.falls, strict=True)]
        weights = [torch.where(along > 0, 1 / torch.where(along > 0, along, 1.0), 0.0) for along in alongs]
        rest, shares = slope, []
        for step, fall, weight in reversed(list(zip(self.steps, self.falls, weights, strict=True))):
            shares.append(weight * dot(step, rest))
            rest = rest - wide(shares[-1]) * fall
        found = wide(self.length) * rest
        for step, fall, weight, share in zip(self.steps, self.falls, weights, reversed(shares), strict=True):
            found = found + wide(share - weight * dot(fall, found)) * step
        return found


def dot(first: Float[Tensor, "*batch n d"], second: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch"]:
    """The inner product of two fields, sample by sample."""
    return (first * second).sum((-1, -2))


def wide(values: Shaped[Tensor, "*batch"]) -> Shaped[Tensor, "*batch 1 1"]:
    """One value a sample, to be combined with fields."""
    return values[..., None, None]


def _pushed(stack: Sequence[Tensor], new: Tensor, where: Bool[Tensor, "*batch"]) -> tuple[Tensor, ...]:
    """`new` behind the stack where it counts; elsewhere a zero in front, which means nothing."""
    behind = (*stack, new)
    if not bool(where.all()):
        before = (torch.zeros_like(new), *stack)
        behind = tuple(torch.where(wide(where), one, other) for one, other in zip(behind, before, strict=True))
    return behind[-PAIRS:]

"""How much a remainder matters for everything after it: weights for sums of ellipsoids, of which any are sound."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from robust_attn.predictions.tape import Tape
from robust_attn.predictions.walks import FirstSketch

FUNCTIONALS = 6
"""Random functionals of the later nodes."""


@dataclass(frozen=True, eq=False)
class Influence:
    """By node, gradients of random functionals of all later inputs of curved operations, relative to the first order.

    The mean square of gradient * axes is then the mean over later inputs of |J axes|_F^2 / |first order|_F^2; inputs
    that the perturbation does not reach to first order do not count.
    """

    gradients: list[Tensor]

    @classmethod
    def of(cls, tape: Tape, sketch: FirstSketch) -> Influence:
        """With signs from a seed of their own: nothing has to be random here."""
        generator = torch.Generator().manual_seed(0)
        readers = {
            parent: orders.ranges[0]
            for index, all_orders in sketch.inputs.items()
            for parent, orders in zip(tape.nodes[index].parents, all_orders, strict=True)
            if float(orders.ranges[0].norm()) > 0
        }
        later = [max(1, sum(parent >= index for parent in readers)) for index in range(len(tape.nodes))]
        with torch.enable_grad():
            values = tape.replayed(tape.value(0).clone().requires_grad_(True))
            found = []
            for _ in range(FUNCTIONALS):
                total = sum((_signed(values[at], first, generator) for at, first in readers.items()), values[-1].sum())
                found.append(torch.autograd.grad(total, values, allow_unused=True, retain_graph=True))
        stacked = [
            torch.stack([torch.zeros_like(value) if each is None else each for each in parts])
            for value, parts in zip(values, zip(*found, strict=True), strict=True)
        ]
        return cls([each.detach() / math.sqrt(FUNCTIONALS * n) for each, n in zip(stacked, later, strict=True)])

    def size(self, index: int, axes: Tensor) -> float:
        """Of an ellipsoid at the output of a node; 0 only where all axes are."""
        size = float((self.gradients[index] * axes).norm())
        return max(size, 1e-12 * float(axes.norm()))


def _signed(value: Tensor, first: Tensor, generator: torch.Generator) -> Tensor:
    signs = torch.randn(value.shape, generator=generator, dtype=value.dtype)
    return (signs * value).sum() / float(first.norm())

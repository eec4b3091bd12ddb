"""Deviations that are exactly known: images of unit balls under random matrices, and what a Look says of them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from robust_attn.predictions.look import Look, Sizes
from tests.cases import generator


@dataclass(frozen=True, eq=False)
class Deviations:
    """y = Y a, c = C b, e = c + E g with unit vectors a, b, g; one matrix [*shape, columns] per input and part."""

    y: list[Tensor]
    c: list[Tensor]
    rest: list[Tensor]
    columns: int

    @classmethod
    def random(cls, shapes, sizes, seed, columns=3, projections=None):
        g = generator(seed)
        maps = projections or [lambda x: x] * len(shapes)

        def draw(size):
            parts = [torch.randn(*shape, columns, generator=g, dtype=torch.float64) * size for shape in shapes]
            return [project(part.movedim(-1, 0)).movedim(0, -1) for part, project in zip(parts, maps, strict=True)]

        return cls(*(draw(size) for size in sizes), columns)

    def at(self, unit: Tensor) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """y, e and c for the three unit vectors in `unit` [3, columns]."""
        a, b, g = unit / unit.norm(dim=-1, keepdim=True)
        y, c, rest = ([m @ v for m in part] for part, v in ((self.y, a), (self.c, b), (self.rest, g)))
        return y, [p + q for p, q in zip(c, rest, strict=True)], c


class ExactLook(Look):
    """Exact sizes of y and c, and sums of exact sizes for e and d: what samples are upper values of."""

    def __init__(self, deviations: Deviations, row_weights: Tensor | None = None) -> None:
        self._all, self._rows = deviations, row_weights

    def _measured(self, slot, measure) -> Sizes:
        y, c, rest = (measure(part[slot]) for part in (self._all.y, self._all.c, self._all.rest))
        return Sizes(y, c + rest, c)

    def ranges(self, slot):
        return self._measured(slot, lambda m: m.norm(dim=-1))

    def shape(self, slot):
        return self.ranges(slot)

    def rows(self):
        return self._measured(0, lambda m: torch.linalg.matrix_norm(m * self._rows[..., None], ord=2))

    def norm(self, slot, weights, part):
        def measure(m):
            return torch.linalg.matrix_norm((m * weights.expand(m.shape[:-1])[..., None]).flatten(0, -2), ord=2)

        return self._measured(slot, measure).of(part)


def remainder(operation, at, y, e, c) -> Tensor:
    """f(at + d) - f - Df d - D^2 f[y, y] / 2 - D^2 f[y, e - c] - D^3 f[y, y, y] / 6, exactly."""
    batch = [[each[None] for each in part] for part in (y, e, c)]
    first, rest, crude = batch
    d = [p + q for p, q in zip(first, rest, strict=True)]
    followed = [p - q for p, q in zip(rest, crude, strict=True)]
    moved = operation.value(*(p + q[0] for p, q in zip(at, d, strict=True)))
    cubic = operation.third(at, first, first, first)
    left = moved - operation.value(*at) - operation.first(at, d)[0]
    left = left - operation.second(at, first, first)[0] / 2 - operation.second(at, first, followed)[0]
    return left if cubic is None else left - cubic[0] / 6


def largest_excess(operation, at, deviations, look, seed, *, steps=25, starts=4) -> float:
    """The largest |remainder / half axes| that ascent from random unit vectors finds: at most 1 if the bound holds."""
    axes = operation.remainder(at, look)
    assert bool(axes.isfinite().all())
    g, worst = generator(seed), 0.0
    for _ in range(starts):
        unit = torch.randn(3, deviations.columns, generator=g, dtype=torch.float64)
        for _ in range(steps):
            unit = unit.detach().requires_grad_(True)
            with torch.enable_grad():
                left = remainder(operation, at, *deviations.at(unit))
                size = torch.where(axes > 0, left / axes.clamp(min=1e-300), 0.0).norm()
                (slope,) = torch.autograd.grad(size, unit)
            assert float(left.detach()[axes == 0].abs().sum()) < 1e-13
            worst = max(worst, float(size.detach()))
            unit = unit.detach() / unit.detach().norm(dim=-1, keepdim=True)
            unit = unit + 0.3 * slope / slope.norm(dim=-1, keepdim=True).clamp(min=1e-300)
    return worst

"""Deviations that are exactly known: images of unit balls under random matrices, and what a Look says of them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from robust_attn.predictions.look import Look, Sizes
from tests.cases import generator


@dataclass(frozen=True, eq=False)
class Deviations:
    """y = Y a, s = S b, c = C f, k = c + E g, h = k + Z l with unit vectors; one matrix [*shape, columns] each."""

    y: list[Tensor]
    s: list[Tensor]
    c: list[Tensor]
    rest: list[Tensor]
    z: list[Tensor]
    columns: int

    @classmethod
    def random(cls, shapes, sizes, seed, columns=3, projections=None):
        g = generator(seed)
        maps = projections or [lambda x: x] * len(shapes)

        def draw(size):
            parts = [torch.randn(*shape, columns, generator=g, dtype=torch.float64) * size for shape in shapes]
            return [project(part.movedim(-1, 0)).movedim(0, -1) for part, project in zip(parts, maps, strict=True)]

        return cls(*(draw(size) for size in sizes), columns)

    def at(self, unit: Tensor) -> tuple[list[Tensor], ...]:
        """y, s, h, k and c for the five unit vectors in `unit` [5, columns]."""
        units = unit / unit.norm(dim=-1, keepdim=True)
        y, s, c, rest, z = (
            [m @ v for m in part] for part, v in zip((self.y, self.s, self.c, self.rest, self.z), units, strict=True)
        )
        k = [p + q for p, q in zip(c, rest, strict=True)]
        return y, s, [p + q for p, q in zip(k, z, strict=True)], k, c


class ExactLook(Look):
    """Exact sizes of y, s and c, and sums of exact sizes for the rest: what samples are upper values of."""

    def __init__(self, deviations: Deviations, row_weights: Tensor | None = None) -> None:
        self._all, self._rows = deviations, row_weights

    def _measured(self, slot, measure) -> Sizes:
        parts = self._all.y, self._all.s, self._all.c, self._all.rest, self._all.z
        y, s, c, rest, z = (measure(part[slot]) for part in parts)
        return Sizes(y, s, c + rest + z, c + rest, c)

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


def remainder(operation, at, parts) -> Tensor:
    """f(at + d) - f - Df d minus everything that is followed (`Operation.remainder`), exactly."""
    y, s, h, k, c = ([each[None] for each in part] for part in parts)
    d = [p + q + r for p, q, r in zip(y, s, h, strict=True)]
    followed = [p + q - r for p, q, r in zip(s, h, c, strict=True)]
    moved = operation.value(*(p + q[0] for p, q in zip(at, d, strict=True)))
    left = moved - operation.value(*at) - operation.first(at, d)[0]
    left = left - operation.second(at, y, y)[0] / 2 - operation.second(at, y, followed)[0]
    z = [p - q for p, q in zip(h, k, strict=True)]
    left = left - operation.second(at, s, s)[0] / 2 - operation.second(at, s, z)[0]
    cubic, quartic = operation.third(at, y, y, y), operation.fourth(at, y, y, y, y)
    if cubic is not None:
        left = left - cubic[0] / 6 - operation.third(at, y, y, s)[0] / 2 - operation.third(at, y, y, z)[0] / 2
    return left if quartic is None else left - quartic[0] / 24


def largest_excess(operation, at, deviations, look, seed, *, steps=25, starts=4) -> float:
    """The largest |remainder / half axes| that ascent from random unit vectors finds: at most 1 if the bound holds."""
    axes = operation.remainder(at, look)
    assert bool(axes.isfinite().all())
    g, worst = generator(seed), 0.0
    for _ in range(starts):
        unit = torch.randn(5, deviations.columns, generator=g, dtype=torch.float64)
        for _ in range(steps):
            unit = unit.detach().requires_grad_(True)
            with torch.enable_grad():
                left = remainder(operation, at, deviations.at(unit))
                size = torch.where(axes > 0, left / axes.clamp(min=1e-300), 0.0).norm()
                (slope,) = torch.autograd.grad(size, unit)
            assert float(left.detach()[axes == 0].abs().sum()) < 1e-13
            worst = max(worst, float(size.detach()))
            unit = unit.detach() / unit.detach().norm(dim=-1, keepdim=True)
            unit = unit + 0.3 * slope / slope.norm(dim=-1, keepdim=True).clamp(min=1e-300)
    return worst

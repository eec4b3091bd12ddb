"""Search for the tokens in a ball at which a layer is steepest: ascent on the largest singular value itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.jacobian import LayerJacobian
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.operator import Jacobian, ScaledJacobian
from robust_attn.attention.places import standard_normal
from robust_attn.spectral.lanczos import largest_singular_value
from robust_attn.spectral.lipschitz import QueryPart

Part = Callable[[LayerJacobian], Jacobian]
"""Of the derivative at a measure."""
LANCZOS_STEPS = 16
FIRST_STEP = 0.3
SHORTEST_STEP = 1e-6
EDGE = 1e-9
MASS_STEP = 4.0
"""How far the logarithm of a mass goes in a step of length one, in which a point goes as far as the ball is wide."""
LIGHTEST = 12.0
"""Where masses are free, starts have atoms down to e^{-12} of the heaviest."""


@dataclass(frozen=True, eq=False)
class WorstCase:
    """A measure in the ball and the local Lipschitz constant there (a lower value), after every step of the search."""

    measure: TokenMeasure
    constant: float
    history: tuple[float, ...]

    @property
    def points(self) -> Float[Tensor, "n d"]:
        """Where its tokens are."""
        return self.measure.points


@dataclass(frozen=True, eq=False)
class Steepness:
    """A lower estimate of the local constant in L2 of a measure, with its gradient by points and by log masses."""

    constant: float
    by_points: Float[Tensor, "n d"]
    by_log_masses: Float[Tensor, "n"]


@dataclass(frozen=True)
class WorstCaseSearch:
    """Ascent on sigma_1(D f) in L2 of the measure over tokens of norm at most `radius`, from starts given and random.

    With `masses` the masses of the tokens are searched for too, as a softmax; otherwise they are equal. With
    `splitting` the constant is that of tokens free to split: the query part counts where it is larger
    (docs/proofs/splitting.md#copies). The gradient of a simple singular value is that of |D f v| at its fixed singular
    vector v (autograd through the closed-form jvp). Steps are normalised, points and masses apart, and halved when they
    do not improve.
    """

    radius: float
    steps: int = 60
    restarts: int = 2
    masses: bool = False
    splitting: bool = False

    def __call__(
        self,
        layer: AttentionLayer,
        length: int,
        *,
        generator: torch.Generator,
        starts: tuple[Float[Tensor, "n d"], ...] = (),
    ) -> WorstCase:
        """The steepest measure of `length` tokens found."""
        measures = [TokenMeasure.uniform(self._project(start)) for start in starts]
        measures += [self._random_start(layer, length, generator, index) for index in range(self.restarts)]
        if not measures:
            raise ValueError("the search needs a start or at least one restart")
        return max((self._ascend(layer, start, generator) for start in measures), key=lambda worst: worst.constant)

    def _random_start(self, layer: AttentionLayer, length: int, generator: torch.Generator, index: int) -> TokenMeasure:
        """In turn one token opposite to a cluster of the others, as in the paper's configurations, and any tokens."""
        noise = standard_normal((length, layer.width), generator, layer.query)
        axis = noise[0] / noise[0].norm()
        cluster = -axis + 0.3 * noise / noise.norm(dim=-1, keepdim=True)
        cluster[0] = axis
        opposed = self.radius * cluster / cluster.norm(dim=-1, keepdim=True)
        points = opposed if index % 2 == 0 else self._project(self.radius * noise)
        if not self.masses:
            return TokenMeasure.uniform(points)
        spread = LIGHTEST * torch.rand(length, generator=generator, dtype=layer.dtype).to(layer.device)
        return TokenMeasure.weighted(points, (-spread).softmax(-1))

    def _project(self, points: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        norms = points.norm(dim=-1, keepdim=True)
        return points * (self.radius / norms.clamp_min(self.radius or 1))

    def _ascend(self, layer: AttentionLayer, start: TokenMeasure, generator: torch.Generator) -> WorstCase:
        best, at, step = start, steepness(layer, start, generator, splitting=self.splitting), FIRST_STEP
        history = [at.constant]
        for _ in range(self.steps):
            candidate = self._moved(best, at, step)
            there = steepness(layer, candidate, generator, splitting=self.splitting)
            if there.constant > at.constant:
                best, at, step = candidate, there, min(2 * step, 1.0)
            else:
                step /= 2
            history.append(at.constant)
            if step < SHORTEST_STEP:
                break
        return WorstCase(best, at.constant, tuple(history))

    def _moved(self, measure: TokenMeasure, at: Steepness, step: float) -> TokenMeasure:
        """Points moved by at most step times the radius and, if they are free, log masses by as many MASS_STEPs."""
        slope = self._along_the_ball(measure.points, at.by_points)
        points = self._project(measure.points + step * self.radius * slope / _largest(slope.norm(dim=-1)))
        if not self.masses:
            return measure.with_points(points)
        logs = measure.masses.log() + step * MASS_STEP * at.by_log_masses / _largest(at.by_log_masses.abs())
        return TokenMeasure.weighted(points, logs.softmax(-1))

    def _along_the_ball(self, points: Float[Tensor, "n d"], slope: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """The slope without what would take points at the edge out of the ball."""
        norms = points.norm(dim=-1, keepdim=True)
        outward = points / torch.where(norms > 0, norms, torch.ones_like(norms))
        component = (slope * outward).sum(-1, keepdim=True)
        return torch.where((norms >= self.radius * (1 - EDGE)) & (component > 0), slope - component * outward, slope)


def _largest(sizes: Float[Tensor, "n"]) -> Float[Tensor, ""]:
    return sizes.amax().clamp_min(torch.finfo(sizes.dtype).tiny)


def steepness(
    layer: AttentionLayer, measure: TokenMeasure, generator: torch.Generator, *, splitting: bool = False
) -> Steepness:
    """The local constant at one sample by a few Lanczos steps, and its gradient."""
    # The blocks of the query part have the same norm in L2 of the measure as in any other.
    parts: tuple[Part, ...] = (_whole, QueryPart) if splitting else (_whole,)
    return max((_slope_of(layer, measure, generator, part) for part in parts), key=lambda slope: slope.constant)


def _slope_of(layer: AttentionLayer, measure: TokenMeasure, generator: torch.Generator, part: Part) -> Steepness:
    at = part(layer.linearize(measure))
    tangent = largest_singular_value(at, generator=generator, steps=LANCZOS_STEPS).direction
    points = measure.points.clone().requires_grad_(True)
    logs = measure.masses.log().requires_grad_(True)
    free = TokenMeasure(points, logs.softmax(-1), measure.positions)
    size = part(layer.linearize(free)).jvp(tangent).norm()
    by_points, by_logs = torch.autograd.grad(size, (points, logs))
    return Steepness(float(size.detach()) / max(float(tangent.norm()), 1e-300), by_points, by_logs)


def _whole(at: LayerJacobian) -> Jacobian:
    """The derivative in L2 of the measure."""
    return ScaledJacobian(at, at.measure.masses)

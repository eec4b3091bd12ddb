"""Search for the tokens in a ball at which a layer is steepest: ascent on the largest singular value itself."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.spectral.lanczos import largest_singular_value

LANCZOS_STEPS = 16


@dataclass(frozen=True, eq=False)
class WorstCase:
    """Tokens in the ball and the local Lipschitz constant there (a lower estimate), after every step of the search."""

    points: Float[Tensor, "n d"]
    constant: float
    history: tuple[float, ...]


@dataclass(frozen=True)
class WorstCaseSearch:
    """Ascent on sigma_1(D_X f) over tokens of norm at most `radius`, from the starts given and random ones.

    The gradient of a simple singular value is that of <u, D_X f v> at fixed singular vectors u, v (autograd through
    the closed-form jvp). Steps are normalised token by token and halved when they do not improve.
    """

    radius: float
    steps: int = 60
    restarts: int = 2

    def __call__(
        self,
        layer: AttentionLayer,
        length: int,
        *,
        generator: torch.Generator,
        starts: tuple[Float[Tensor, "n d"], ...] = (),
    ) -> WorstCase:
        """The steepest configuration of `length` tokens found."""
        random = [self._random_start(layer, length, generator) for _ in range(self.restarts)]
        found = [self._ascend(layer, self._project(start), generator) for start in (*starts, *random)]
        if not found:
            raise ValueError("the search needs a start or at least one restart")
        return max(found, key=lambda worst: worst.constant)

    def _random_start(self, layer: AttentionLayer, length: int, generator: torch.Generator) -> Tensor:
        """One token opposite to a cluster of the others: the shape of the paper's adversarial configurations."""
        noise = torch.randn(length, layer.width, generator=generator, dtype=layer.dtype)
        axis = noise[0] / noise[0].norm()
        cluster = -axis + 0.3 * noise / noise.norm(dim=-1, keepdim=True)
        cluster[0] = axis
        return self.radius * cluster / cluster.norm(dim=-1, keepdim=True)

    def _project(self, points: Tensor) -> Tensor:
        norms = points.norm(dim=-1, keepdim=True)
        return points * (
            self.radius / torch.where(norms > self.radius, norms, torch.full_like(norms, self.radius or 1))
        )

    def _ascend(self, layer: AttentionLayer, start: Tensor, generator: torch.Generator) -> WorstCase:
        best = start
        constant, gradient = steepness(layer, best, generator)
        history, step = [constant], 0.3 * self.radius
        for _ in range(self.steps):
            size = gradient.norm(dim=-1, keepdim=True)
            direction = gradient / size.amax().clamp_min(torch.finfo(size.dtype).tiny)
            candidate = self._project(best + step * direction)
            value, slope = steepness(layer, candidate, generator)
            if value > constant:
                best, constant, gradient, step = candidate, value, slope, min(2 * step, self.radius)
            else:
                step /= 2
            history.append(constant)
            if step < 1e-6 * self.radius:
                break
        return WorstCase(best, constant, tuple(history))


def steepness(
    layer: AttentionLayer, points: Float[Tensor, "n d"], generator: torch.Generator
) -> tuple[float, Float[Tensor, "n d"]]:
    """A lower estimate of the local Lipschitz constant at the points, and its gradient with respect to them."""
    estimate = largest_singular_value(
        layer.linearize(TokenMeasure.uniform(points)), generator=generator, steps=LANCZOS_STEPS
    )
    tangent = estimate.direction
    leaf = points.clone().requires_grad_(True)
    image = layer.linearize(TokenMeasure.uniform(leaf)).jvp(tangent)
    size = image.norm()
    (gradient,) = torch.autograd.grad(size, leaf)
    return float(size.detach()) / max(float(tangent.norm()), 1e-300), gradient

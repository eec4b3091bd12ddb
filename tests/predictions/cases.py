"""An attack on the margins of random small whole models (which the campaign draws), one start after another."""

from collections.abc import Sequence

import torch
from torch import Tensor

from robust_attn.predictions.steps import Network
from robust_attn.soundness.whole_models import normal, random_network
from tests.cases import generator

__all__ = ["descended", "margin", "normal", "random_network", "smallest_margin"]


def margin(network: Network, points: Tensor, label: int) -> Tensor:
    logits = network.tape(points, detach=False).logits
    others = torch.cat([logits[:label], logits[label + 1 :]])
    return logits[label] - others.max()


def descended(
    network: Network, points: Tensor, step: Tensor, *, radius: float, free: Tensor, strides: Sequence[float]
) -> tuple[float, Tensor]:
    """Projected descent on the margin inside the ball: the least margin before the last stride, and where it ends."""
    label, least = int(network.tape(points).logits.argmax()), torch.inf
    for stride in strides:
        moved = step.clone().requires_grad_(True)
        with torch.enable_grad():
            value = margin(network, points + moved, label)
            (slope,) = torch.autograd.grad(value, moved)
        least = min(least, float(value.detach()))
        slope = slope * free
        step = step - stride * radius * slope / slope.norm().clamp(min=1e-300)
        step = step * min(1.0, radius / max(float(step.norm()), 1e-300))
    return least, step


def smallest_margin(
    network: Network, points: Tensor, radius: float, *, free: Tensor, seed: int, steps: int = 12, starts: int = 3
) -> float:
    """Projected descent on the margin inside the ball: along the gradient, and from random points of the sphere."""
    label = int(network.tape(points).logits.argmax())
    g, least = generator(seed), torch.inf
    for start in range(starts):
        step = torch.zeros_like(points) if start == 0 else normal(g, *points.shape) * free
        step = step if start == 0 else radius * step / step.norm()
        found, step = descended(network, points, step, radius=radius, free=free, strides=[0.5] * steps)
        least = min(least, found, float(margin(network, points + step, label)))
    return least

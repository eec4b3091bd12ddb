"""Random small whole models of every kind, and an attack on their margins."""

from collections.abc import Sequence

import torch
from torch import Tensor

from robust_attn.predictions.scalar_functions import Gelu, Relu, Silu, Tanh, TanhGelu
from robust_attn.predictions.steps import Attention, Block, Mlp, Network, Norm, Weights
from tests.cases import generator

ACTIVATIONS = (Gelu(), TanhGelu(), Silu(), Relu(), Tanh())


def pick(g: torch.Generator, count: int) -> int:
    return int(torch.randint(count, (), generator=g))


def normal(g: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=g, dtype=torch.float64)


def weights(g: torch.Generator, out: int, width: int, scale: float = 1.0) -> Weights:
    return Weights(scale * normal(g, out, width) / width**0.5, 0.3 * normal(g, out))


def norm(g: torch.Generator, width: int, centred: bool) -> Norm:
    offset = 0.2 * normal(g, width) if centred else None
    return Norm(1 + 0.3 * normal(g, width), offset, 1e-5, centred)


def block(g: torch.Generator, n: int, width: int, heads: int, *, pre: bool) -> Block:
    centred, causal, gated = (bool(pick(g, 2)) for _ in range(3))
    sharp = (0.5, 1.0, 2.0)[pick(g, 3)]
    attention = Attention(
        weights(g, width, width, sharp),
        weights(g, width, width, sharp),
        weights(g, width, width),
        weights(g, width, width),
        heads=heads,
        scale=(width // heads) ** -0.5,
        visible=torch.ones(n, n, dtype=torch.bool).tril() if causal else None,
    )
    inner = width + pick(g, 4)
    gate = weights(g, inner, width) if gated else None
    mlp = Mlp(weights(g, inner, width), weights(g, width, inner), ACTIVATIONS[pick(g, 5)], gate)
    return Block(attention, mlp, (norm(g, width, centred), norm(g, width, centred)), pre=pre)


def random_network(seed: int, *, tokens: int = 3, largest_width: int = 8) -> tuple[Network, Tensor]:
    """A network and an input; sizes, order of norms, masks, activations and heads drawn."""
    g = generator(seed)
    n, heads = 2 + pick(g, tokens - 1), 1 + pick(g, 2)
    width = heads * (2 + pick(g, largest_width // heads - 1))
    pre, layers, classes = bool(pick(g, 2)), 1 + pick(g, 2), 2 + pick(g, 2)
    pooling = torch.full((n,), 1 / n, dtype=torch.float64) if pick(g, 2) else torch.eye(n, dtype=torch.float64)[0]
    head = (weights(g, width, width), (Relu(), Tanh(), Gelu())[pick(g, 3)], weights(g, classes, width))
    network = Network(
        0.3 * normal(g, n, width),
        tuple(block(g, n, width, heads, pre=pre) for _ in range(layers)),
        pooling,
        head if pick(g, 2) else (weights(g, classes, width),),
        input_norm=norm(g, width, True) if not pre else None,
        last_norm=norm(g, width, True) if pre else None,
    )
    return network, normal(g, n, width)


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

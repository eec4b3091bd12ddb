"""Random small whole models of every kind: what the certificates of predictions are tried on."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from robust_attn.predictions.scalar_functions import Gelu, Relu, Silu, Tanh, TanhGelu
from robust_attn.predictions.steps import Attention, Block, Mlp, Network, Norm, Weights

ACTIVATIONS = (Gelu(), TanhGelu(), Silu(), Relu(), Tanh())
FAMILIES = ("plain", "decoder", "vit", "widened")
"""Plain blocks; keys that heads share and rotary positions; a class token before projected rows; narrow embeddings."""


def pick(g: torch.Generator, count: int) -> int:
    """One of 0 .. count - 1."""
    return int(torch.randint(count, (), generator=g))


def normal(g: torch.Generator, *shape: int) -> Tensor:
    """Independent standard normal numbers."""
    return torch.randn(*shape, generator=g, dtype=torch.float64)


def weights(g: torch.Generator, out: int, width: int, scale: float = 1.0) -> Weights:
    """A map with a bias."""
    return Weights(scale * normal(g, out, width) / width**0.5, 0.3 * normal(g, out))


def norm(g: torch.Generator, width: int, centred: bool) -> Norm:
    """LayerNorm, or RMSNorm where not centred."""
    offset = 0.2 * normal(g, width) if centred else None
    return Norm(1 + 0.3 * normal(g, width), offset, 1e-5, centred)


def block(g: torch.Generator, n: int, width: int, heads: int, *, pre: bool) -> Block:
    """One layer; mask, gate, kind of norm, activation and size of logits are drawn."""
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
    """A plain network and an input; sizes, order of norms, masks, activations and heads drawn."""
    g = torch.Generator().manual_seed(seed)
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


def of_family(network: Network, points: Tensor, family: str, g: torch.Generator) -> tuple[Network, Tensor]:
    """A plain network with what that family has besides, and an input for it."""
    rows, width = points.shape
    match family:
        case "decoder":
            blocks = tuple(replace(each, attention=_decoding(each.attention, rows, g)) for each in network.blocks)
            return replace(network, blocks=blocks), points
        case "vit":
            channels = 2 + pick(g, 3)
            embedded = replace(network, embed=weights(g, width, channels), class_token=True)
            return embedded, normal(g, rows - 1, channels)
        case "widened":
            narrow = 2 + pick(g, width - 1)
            first = norm(g, narrow, True) if network.input_norm is not None else None
            return replace(
                network, offset=0.3 * normal(g, rows, narrow), input_norm=first, widen=weights(g, width, narrow)
            ), normal(g, rows, narrow)
        case _:
            return network, points


def _decoding(attention: Attention, rows: int, g: torch.Generator) -> Attention:
    """Causal, with one group of keys and values, and rotary positions where heads are of even width."""
    width = len(attention.query.weight)
    head = width // attention.heads
    rotation = None
    if head % 2 == 0:
        angles = torch.arange(rows, dtype=torch.float64)[:, None] * (0.1 + normal(g, head // 2).abs())
        rotation = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
    visible = torch.ones(rows, rows, dtype=torch.bool).tril()
    key, value = (weights(g, head, width) for _ in range(2))
    return replace(attention, key=key, value=value, groups=1, visible=visible, rotation=rotation)


def drawn_model(seed: int) -> tuple[Network, Tensor, str]:
    """A model of the campaign, its input, and its family: families take turns.

    Every row has influence, and margins are of every size, down to a few thousandths of what a random head gives: there
    flips are near and certificates sharp.
    """
    network, points = random_network(seed, largest_width=6)
    g, family = torch.Generator().manual_seed(seed + 2**31), FAMILIES[seed % len(FAMILIES)]
    network, points = of_family(network, points, family, g)
    causal = any(each.attention.visible is not None for each in network.blocks)
    if causal and bool((network.pooling == 1).any()):
        network = replace(network, pooling=network.pooling.flip(0))
    return _nearer(network, points, 10 ** (-2.5 * float(torch.rand((), generator=g)))), points, family


def _nearer(network: Network, points: Tensor, share: float) -> Network:
    """The same with the last bias such that the margin is that share of what it was."""
    logits = network.tape(points).logits
    best = logits.topk(2)
    last = network.head[-1]
    if not isinstance(last, Weights) or last.bias is None:
        raise TypeError("the head of a drawn model ends with a map that has a bias")
    bias = last.bias.clone()
    bias[best.indices[0]] -= (1 - share) * float(best.values[0] - best.values[1])
    return replace(network, head=(*network.head[:-1], Weights(last.weight, bias)))


def words_of(network: Network, family: str) -> dict[str, str]:
    """What was drawn, in words."""
    first = network.blocks[0]
    return {
        "family": family,
        "norms": f"{'before' if first.pre else 'after'}, {'LayerNorm' if first.norms[0].centred else 'RMSNorm'}",
        "activation": type(first.mlp.activation).__name__ + (", gated" if first.mlp.gate is not None else ""),
        "mask": "none" if first.attention.visible is None else "causal",
        "pooling": "one row" if bool((network.pooling == 1).any()) else "mean",
        "depth": f"{len(network.blocks)} blocks" if len(network.blocks) > 1 else "1 block",
    }

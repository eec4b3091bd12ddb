"""Small layers and measures that are hard on float64: large and balanced logits, tiny weights, tokens nearly equal."""

from dataclasses import dataclass

import torch
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from tests.cases import generator


@dataclass(frozen=True)
class SmallCase:
    """`size` multiplies the queries, `common` adds about that much to all logits, `apart` is how far tokens are."""

    name: str
    heads: int = 1
    length: int = 3
    width: int = 2
    mask: Mask = Mask.NONE
    size: float = 1.0
    common: float = 0.0
    apart: float = 1.0
    bias: float = 1.0
    masses: tuple[float, ...] | None = None

    def __str__(self) -> str:
        return self.name

    def layer(self, seed: int) -> AttentionLayer:
        g = generator(seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=g, dtype=torch.float64)

        return AttentionLayer(
            query=normal(self.heads, 2, self.width) * self.size,
            query_bias=normal(self.heads, 2) * self.bias,
            key=normal(self.heads, 2, self.width),
            key_bias=normal(self.heads, 2) * self.bias,
            value=normal(self.heads, 2, self.width),
            output=normal(self.heads, 2, 2),
            offset=normal(2),
            scale=2**-0.5,
            mask=self.mask,
        )

    def measure(self, seed: int) -> TokenMeasure:
        points = torch.randn(self.length, self.width, generator=generator(seed + 1), dtype=torch.float64)
        if self.common:
            points = _level(self.layer(seed), points, self.common)
        if self.apart < 1:
            points = points[:1] + self.apart * points
        if self.masses is None:
            return TokenMeasure.uniform(points)
        return TokenMeasure.weighted(points, torch.tensor(self.masses, dtype=torch.float64))


def _level(layer: AttentionLayer, points: Tensor, common: float) -> Tensor:
    """Tokens far out in one direction, apart only where their keys are all the same to the query from there."""
    far = points[0] / points[0].norm() * common**0.5
    seen_from_there = layer.key[0].T @ (layer.query[0] @ far)
    beside = torch.stack([-seen_from_there[1], seen_from_there[0]])
    return far + points[:, 1:] * beside / beside.norm()


PLAIN = [
    SmallCase("plain"),
    SmallCase("four tokens in space", length=4, width=3),
    SmallCase("no bias", bias=0.0),
    SmallCase("causal", mask=Mask.CAUSAL),
    SmallCase("unequal masses", masses=(0.7, 0.2, 0.1)),
    SmallCase("a mass of 1e-8", masses=(1e-8, 0.5, 0.5 - 1e-8)),
    SmallCase("one token", length=1),
]
HARD = [
    SmallCase("logits of 1e3", size=1e3),
    SmallCase("logits of 1e4", size=1e4),
    SmallCase("balanced logits of 1e3", common=1e3),
    SmallCase("balanced logits of 1e4", common=1e4),
    SmallCase("weights of 1e-12", size=1e-12, bias=1e-12),
]
NEAR = [SmallCase("tokens 1e-12 apart", apart=1e-12), SmallCase("tokens an ulp apart", apart=3e-16)]
HEADS = [
    SmallCase("two heads", heads=2),
    SmallCase("two heads causal", heads=2, mask=Mask.CAUSAL),
    SmallCase("two heads unequal", heads=2, masses=(1e-8, 0.5, 0.5 - 1e-8)),
]

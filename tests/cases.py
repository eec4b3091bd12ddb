"""Layers and measures of every kind the operator knows: masks, biases, shared heads, rotation, masses, padding."""

from dataclasses import dataclass

import torch
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.rotary import Rotary


@dataclass(frozen=True)
class Case:
    """One kind of layer and measure."""

    mask: Mask = Mask.NONE
    groups: int = 2
    rotary: bool = False
    bias: bool = True
    masses: str = "uniform"

    def __str__(self) -> str:
        words = [str(self.mask), f"{self.groups}groups", self.masses]
        return "-".join(words + ["rotary"] * self.rotary + ["bias"] * self.bias)


CASES = [
    Case(mask, groups, rotary, bias, masses)
    for mask in Mask
    for groups in (1, 2)
    for rotary in (False, True)
    for bias in (False, True)
    for masses in ("uniform", "unequal", "padded", "copies")
]


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_layer(
    case: Case, g: torch.Generator, *, scale: float = 0.5, dtype: torch.dtype = torch.float64
) -> AttentionLayer:
    heads, width, value_width, d, out = 2, 4, 3, 5, 6

    def normal(*shape: int) -> Tensor:
        return (torch.randn(*shape, generator=g, dtype=torch.float64) * scale).to(dtype)

    return AttentionLayer(
        query=normal(heads, width, d),
        query_bias=normal(heads, width) * case.bias,
        key=normal(case.groups, width, d),
        key_bias=normal(case.groups, width) * case.bias,
        value=normal(case.groups, value_width, d),
        output=normal(heads, out, value_width),
        offset=normal(out),
        scale=width**-0.5,
        mask=case.mask,
        rotary=Rotary(torch.tensor([1.0, 0.3])) if case.rotary else None,
    )


def random_measure(
    case: Case, g: torch.Generator, *, samples: int = 2, length: int = 4, radius: float = 1.0
) -> TokenMeasure:
    points = radius * torch.randn(samples, length, 5, generator=g, dtype=torch.float64)
    if case.masses == "padded":
        lengths = torch.randint(1, length + 1, (samples,), generator=g)
        return TokenMeasure.padded(points, lengths)
    if case.masses == "unequal":
        return TokenMeasure.weighted(points, torch.randn(samples, length, generator=g, dtype=torch.float64).softmax(-1))
    if case.masses == "copies":
        return TokenMeasure.uniform(points).split(2)
    return TokenMeasure.uniform(points)


def one_sample(measure: TokenMeasure) -> TokenMeasure:
    """An unbatched measure as a batch of one."""
    return TokenMeasure(measure.points[None], measure.masses[None], measure.positions[None])


def scalar_layer(a: float, v: float = 1.0) -> AttentionLayer:
    """d = 1: f(x)_i = v sum_j softmax_j(a x_i x_j) x_j."""
    return AttentionLayer.single_head(torch.tensor([[a]]).double(), torch.tensor([[v]]).double())


def scalar_measure(points: list[float], masses: list[float] | None = None) -> TokenMeasure:
    column = torch.tensor(points).double()[:, None]
    return (
        TokenMeasure.uniform(column) if masses is None else TokenMeasure.weighted(column, torch.tensor(masses).double())
    )

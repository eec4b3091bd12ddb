"""Layers and measures of every kind the operator knows: masks, biases, shared heads, rotation, masses, padding."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from robust_attn.attention.extras import PositionBias, Sinks
from robust_attn.attention.head_norm import HeadNorm
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask, Window
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.rotary import Rotary, RotaryTable

MASSES = ("uniform", "copies", "unequal", "padded")


@dataclass(frozen=True)
class Case:
    """One kind of layer and measure."""

    mask: Mask = Mask.NONE
    groups: int = 2
    rotary: bool = False
    bias: bool = True
    masses: str = "uniform"
    position_bias: bool = False
    sinks: bool = False
    norm: str = "none"

    def __str__(self) -> str:
        words = [str(self.mask), f"{self.groups}groups", self.masses]
        words += ["rotary"] * self.rotary + ["bias"] * self.bias
        words += ["table"] * self.position_bias + ["sinks"] * self.sinks
        return "-".join(words + [f"{self.norm}_norm"] * (self.norm != "none"))


def _case(first: int, second: int, third: int) -> Case:
    """A row of the orthogonal array of strength two with eight rows: four masses, and four factors of two values.

    Any two of the five columns (first, second), third, first + third, second + third, first + second + third (mod 2)
    take every pair of values, each equally often.
    """
    return Case(
        mask=(Mask.NONE, Mask.CAUSAL)[third],
        groups=2 - (first + third) % 2,
        rotary=bool((second + third) % 2),
        bias=bool((1 + first + second + third) % 2),
        masses=MASSES[2 * first + second],
    )


CASES = [_case(first, second, third) for third in (0, 1) for first in (0, 1) for second in (0, 1)]
"""Every pair of values of every two factors (tests/test_cases.py proves it); the first is `Case()`."""
MORE_CASES = CASES + [replace(case, rotary=not case.rotary) for case in CASES]
"""With a second array, whose triples of rotation, masses and one more are the other ones: together all of them."""

ADDED_CASES = [
    replace(case, groups=1, sinks=case.groups == 1, position_bias=case.groups == 2 or case.bias) for case in CASES
]
"""What is added to logits, in place of the factor of groups: a sink or none, a bias by positions where there is none
and beside half of the sinks."""
NORMS = ("head", "late", "across", "query")
NORM_CASES = [
    replace(case, norm=NORMS[(index + index // 4) % 4], sinks=index in (2, 5)) for index, case in enumerate(CASES)
]
"""Norms of queries and keys: of every head before or after the rotation, of all heads together, of queries alone."""
EVERY_CASE = MORE_CASES + ADDED_CASES + NORM_CASES


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
        position_bias=PositionBias(2 * normal(heads, 8, 8)) if case.position_bias else None,
        sinks=Sinks(2 * normal(heads), normal(heads, value_width) * case.bias) if case.sinks else None,
        query_norm=head_norm(case, heads, normal) if case.norm != "none" else None,
        key_norm=head_norm(case, case.groups, normal) if case.norm not in ("none", "query") else None,
    )


def head_norm(case: Case, blocks: int, normal: Callable[..., Tensor]) -> HeadNorm:
    """Gains around one, a shift with the biases, and an epsilon that matters in half of the cases."""
    gain, shift = 1 + normal(blocks, 4) / 2, normal(blocks, 4) * case.bias
    eps = 0.05 if case.mask is Mask.NONE else 1e-6
    return HeadNorm(gain, shift, eps, across=case.norm == "across", after_rotation=case.norm == "late")


def windowed(layer: AttentionLayer, case: Case, g: torch.Generator) -> AttentionLayer:
    """The layer with the case's mask cut to a window, and with a table in place of frequencies."""
    angles = 3 * torch.randn(4, layer.query.shape[1] // 2, generator=g, dtype=torch.float64)
    window = Window(1, 1 if case.mask is Mask.NONE else 0)
    return replace(layer, mask=window, rotary=RotaryTable.of_angles(angles) if case.rotary else None)


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


def one_place(case: Case) -> tuple[AttentionLayer, TokenMeasure]:
    """A layer and one sample, larger than the usual ones."""
    g = generator(5)
    return random_layer(case, g, scale=0.7), random_measure(case, g, samples=1).sample(0)


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

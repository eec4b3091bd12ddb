"""Norms of queries and keys: which module makes them from which rows, found by comparing numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from robust_attn.attention.head_norm import HeadNorm
from robust_attn.models.generic.events import LinearEvent, NormEvent
from robust_attn.models.generic.match import TIGHT, Rows, matched
from robust_attn.models.generic.refusal import LayerRefusedError, Reason
from robust_attn.models.hooks import Spot

EPSILONS = ("eps", "variance_epsilon", "epsilon", "norm_eps")


@dataclass(frozen=True, eq=False)
class NormRecipe:
    """What a norm module computes: its gain is `more` + its weight (one if it has none), and whether it centres."""

    module: nn.Module
    more: float
    weighted: bool
    centred: bool
    eps: float

    def numbers(self) -> tuple[Tensor | None, Tensor | None]:
        """Gain and shift as they are stored now; None for ones and zeros."""
        norm: Any = self.module
        gain = norm.weight.detach() + self.more if self.weighted else None
        bias: Tensor | None = getattr(norm, "bias", None)
        return gain, None if bias is None else bias.detach()

    def __call__(self, given: Tensor) -> Tensor:
        """The formula."""
        gain, shift = self.numbers()
        deviation = given - given.mean(-1, keepdim=True) if self.centred else given
        made = deviation / (deviation.square().mean(-1, keepdim=True) + self.eps).sqrt()
        made = made if gain is None else made * gain
        return made if shift is None else made + shift


@dataclass(frozen=True, eq=False)
class NormRows:
    """The norm of one side: coordinate i of all heads has factors[i] times entry index[i] of its gain and shift."""

    recipe: NormRecipe
    index: Int[Tensor, " m"]
    factors: Float[Tensor, " m"]
    across: bool
    late: bool
    blocks: int

    def reordered(self, order: Int[Tensor, " width"]) -> NormRows:
        """The same with the coordinates of every head in another order."""
        index = torch.arange(len(self.index)).view(self.blocks, -1)[:, order].flatten()
        return NormRows(self.recipe, self.index[index], self.factors[index], self.across, self.late, self.blocks)

    def head_norm(self, like: Tensor) -> HeadNorm:
        """As the operator has it, in the precision of the weights `like`."""
        factors = self.factors.to(like)
        gain, shift = (
            torch.full_like(factors, still) if stored is None else stored.flatten().to(like)[self.index.to(like.device)]
            for stored, still in zip(self.recipe.numbers(), (1.0, 0.0), strict=True)
        )
        gain, shift = ((field * factors).unflatten(0, (self.blocks, -1)) for field in (gain, shift))
        return HeadNorm(gain, shift, self.recipe.eps, across=self.across, after_rotation=self.late)

    def centre(self, field: Tensor) -> Tensor:
        """Weights or biases in blocks with the mean taken off that a layer norm takes off, in float64 on the way."""
        if not self.recipe.centred:
            return field
        exact = field.double()
        mean = exact.mean((0, 1), keepdim=True) if self.across else exact.mean(1, keepdim=True)
        return (exact - mean).to(field.dtype)


@dataclass(frozen=True, eq=False)
class NormedRows:
    """Rows of linear maps and the norm behind them; `raw` are the vectors that the norm was given, by heads."""

    rows: Rows
    norm: NormRows
    raw: Float[Tensor, "samples heads n width"]


def normed_rows(
    heads: Float[Tensor, "samples heads n width"], norms: tuple[NormEvent, ...], events: list[LinearEvent], at: int
) -> NormedRows | None:
    """The norm that makes these head vectors, and the rows that make what it was given; None if there is none."""
    for event in reversed(norms):
        given, made = (by_tokens(field, heads.shape) for field in (event.given, event.made))
        if given is None or made is None or given.shape != made.shape:
            continue
        outer = matched(heads[:, :, at], [LinearEvent(event.order, Spot(event.module, 0), given, made)], at)
        inner = None if outer is None else matched(given[:, at, None], events, at)
        if outer is None or inner is None or len(outer.features.unique()) != len(outer.features):
            continue
        recipe, places = recipe_of(event, heads.shape)
        pick = outer.features
        rows = Rows(inner.maps, inner.owners[pick], inner.features[pick], inner.factors[pick], heads.shape[1])
        raw = given[..., pick].unflatten(-1, (heads.shape[1], -1)).transpose(1, 2)
        late = not _same_everywhere(raw)
        if late and recipe.centred:
            raise LayerRefusedError(Reason.NORMALISED, "a layer norm behind rotary positions")
        across = event.given.shape[-1] != heads.shape[-1]
        return NormedRows(rows, NormRows(recipe, places[pick], outer.factors, across, late, heads.shape[1]), raw)
    return None


def _same_everywhere(raw: Tensor) -> bool:
    first = raw[:, :, :1]
    return float((raw - first).abs().max()) <= TIGHT * float(first.abs().max())


def by_tokens(field: Tensor, shape: torch.Size) -> Shaped[Tensor, "samples n features"] | None:
    """A field over samples, tokens and whatever there is, with all the rest as features."""
    samples, length = shape[0], shape[-2]
    if field.ndim == 3 and field.shape[0] == samples * length:  # tokens of all samples in one axis
        field = field.unflatten(0, (samples, length))
    if field.ndim < 3 or field.shape[0] != samples:
        return None
    if field.shape[1] == length:
        return field.flatten(2)
    return field.transpose(1, 2).flatten(2) if field.ndim == 4 and field.shape[2] == length else None


def recipe_of(event: NormEvent, shape: torch.Size) -> tuple[NormRecipe, Int[Tensor, " features"]]:
    """What the module computes, by its own numbers, and which of its weights belongs to each feature."""
    for recipe in _recipes(event.module):
        gain, _ = recipe.numbers()
        try:
            expected = recipe(event.given.double())
        except RuntimeError:
            continue
        if expected.shape != event.made.shape:
            continue
        if float((expected - event.made).abs().max()) <= TIGHT * float(expected.abs().max()):
            numbers = (
                torch.arange(event.given.shape[-1]) if gain is None else torch.arange(gain.numel()).view(gain.shape)
            )
            places = by_tokens(numbers.expand(event.given.shape), shape)
            assert places is not None
            return recipe, places[0, 0]
    raise LayerRefusedError(Reason.NORMALISED, type(event.module).__name__)


def _recipes(module: nn.Module) -> Iterator[NormRecipe]:
    norm: Any = module
    stored = getattr(norm, "weight", None)
    found = [float(getattr(norm, name)) for name in EPSILONS if isinstance(getattr(norm, name, None), float)]
    gains = [(0.0, False)] if stored is None else [(0.0, True), (1.0, True), (0.0, False)]
    for eps in dict.fromkeys((*found, torch.finfo(torch.float64).eps, 1e-6, 1e-5)):
        for more, weighted in gains:
            for centred in (False, True):
                yield NormRecipe(module, more, weighted, centred, eps)

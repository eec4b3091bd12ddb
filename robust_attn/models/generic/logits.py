"""Logits as a multiple of a product of queries and keys, with what is added to it: a mask, a bias."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from robust_attn.models.generic.masks import HIDDEN

EXACT = 1e-12
"""What differs by less, relative to the largest logit, is rounding; in float64."""
Logits = Float[Tensor, "samples heads n m"]


@dataclass(frozen=True, eq=False)
class Fit:
    """Logits are `scale` times the product plus `mask`, up to a number per row; `exact`: the same mask for all samples.

    The mask is None where that is nothing. Where it is not `exact`, it is what is left of every sample.
    """

    scale: float
    mask: Tensor | None
    exact: bool


def fitted_logits(
    query: Float[Tensor, "samples heads n width"],
    key: Float[Tensor, "samples groups m width"],
    logits: Logits,
    weights: Logits,
) -> Fit:
    """The scale that explains how logits differ between samples, and what is left: the same for all, if it is exact.

    A token is hidden where its logit is very negative, and where it is the same in all samples with a weight of zero:
    the former GPT sets it to -10000, below what any other logit of that model comes near.
    """
    product = query.double() @ key.double().transpose(-1, -2)
    logits = logits.double()
    constant = (logits == logits[:1]).all(0) & (weights == 0).all(0)
    hidden = (logits < HIDDEN) | constant
    seen = ~hidden.any(0)
    plain = _fit(product, logits, seen, hidden, query.shape[-1])
    if plain.exact:
        return plain
    centred = _fit(_centred(product, seen), _centred(logits, seen), seen, hidden, query.shape[-1])
    return centred if centred.exact else plain


def _fit(product: Logits, logits: Logits, seen: Bool[Tensor, "heads n m"], hidden: Tensor, width: int) -> Fit:
    step = (product - product[:1])[:, seen]
    scale = float(((logits - logits[:1])[:, seen] * step).sum() / step.square().sum().clamp_min(1e-300))
    scale = next((plain for plain in (1.0, width**-0.5) if abs(scale - plain) <= EXACT * plain), scale)
    left = torch.where(hidden, 0.0, logits - scale * product)
    size = float(logits[:, seen].abs().max()) if bool(seen.any()) else 0.0
    spread = float((left - left[:1]).abs().max())
    exact = bool((hidden == hidden[:1]).all()) and spread <= EXACT * size
    if exact:
        left, hidden = left[:1], hidden[:1]
        left = torch.zeros_like(left) if float(left.abs().max()) <= EXACT * size else left
    mask = left.masked_fill(hidden, -torch.inf)
    return Fit(scale, mask if bool((mask != 0).any()) else None, exact)


def _centred(field: Logits, seen: Bool[Tensor, "heads n m"]) -> Logits:
    """Every row without its mean over what is seen, which no softmax notices."""
    kept = torch.where(seen, field, 0.0)
    return field - kept.sum(-1, keepdim=True) / seen.sum(-1, keepdim=True).clamp_min(1)

"""Which kind of mask a tensor of transformers is, and which bias by positions."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from robust_attn.attention.mask import Mask, Visibility, Window
from robust_attn.models.generic.refusal import LayerRefusedError, Reason

HIDDEN = -1e30
"""Entries below hide a token; float32's smallest number and minus infinity are both in use."""


def position_bias(mask: Tensor | None, extras: Iterable[Tensor], length: int) -> Float[Tensor, "heads n n"] | None:
    """What is added to the logits of every sample alike, zero where a token is hidden; None if that is nothing."""
    parts = [each for each in (mask, *extras) if each is not None and each.is_floating_point()]
    total = None
    for part in parts:
        seen = torch.where(part < HIDDEN, 0.0, part.double())
        if not bool((seen != 0).any()):
            continue
        if seen.ndim != 4 or seen.shape[-2:] != (length, length) or not bool((seen == seen[:1]).all()):
            raise LayerRefusedError(Reason.BIAS, "it differs between samples")
        total = seen[0] if total is None else total + seen[0]
    return total


def mask_kind(mask: Tensor | None, length: int, local: tuple[bool, Window | None]) -> Visibility:
    """None, causal or a window. `local`: whether it was made to be local, with which window; texts may be shorter."""
    if mask is None:
        return Mask.NONE
    before, after = _reach(_seen(mask[..., :length], length), length)
    is_local, window = local
    if is_local:
        last = length - 1
        if window is None or (min(window.before, last), min(window.after, last)) != (before, after):
            raise LayerRefusedError(Reason.MASK, "attention in chunks")
        return window
    if before < length - 1 or 0 < after < length - 1:
        return Window(before, after)
    return Mask.CAUSAL if after == 0 and length > 1 else Mask.NONE


def _seen(mask: Tensor, length: int) -> Bool[Tensor, "n n"]:
    """Who sees whom, the same for all samples and heads."""
    if mask.dtype != torch.bool:
        if bool(mask.isnan().any()):
            raise LayerRefusedError(Reason.MASK, "in float64 it is not a number")
        mask = mask >= HIDDEN
    if mask.shape[-1] != length or mask.ndim < 2:
        raise LayerRefusedError(Reason.MASK, f"shape {tuple(mask.shape)} for {length} tokens")
    flat = mask.expand(*mask.shape[:-2], length, length).reshape(-1, length, length)
    if not bool((flat == flat[:1]).all()):
        raise LayerRefusedError(Reason.MASK, "samples or heads differ")
    return flat[0]


def _reach(seen: Bool[Tensor, "n n"], length: int) -> tuple[int, int]:
    """How far back and ahead is seen, if that is all that the mask says."""
    distance = torch.arange(length)[:, None] - torch.arange(length)
    distance = distance.to(seen.device)
    if not bool(seen.any()):
        raise LayerRefusedError(Reason.MASK, "nobody sees anybody")
    before, after = int(distance[seen].max()), -int(distance[seen].min())
    if not torch.equal(seen, (distance <= before) & (distance >= -after)) or min(before, after) < 0:
        raise LayerRefusedError(Reason.MASK)
    return before, after

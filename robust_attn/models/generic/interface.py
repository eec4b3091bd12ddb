"""The attention function and the mask function that transformers is given while a model is watched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from robust_attn.attention.mask import Window

NAME = "robust_attn_watched"
"""Under this name both are registered; a name without a mask function would silently yield no mask."""
Attend = Callable[..., tuple[Tensor, None]]


class MaskMaker:
    """Makes masks as the implementation found would, and remembers the windows that they were made with.

    A mask with a window is always written out: left out because the text is shorter than the window, it would look like
    one without.
    """

    def __init__(self, implementation: str | None) -> None:
        from transformers import masking_utils

        library: Any = masking_utils
        self.make = library.eager_mask if implementation in (None, "eager") else library.sdpa_mask
        self.windows: list[tuple[Tensor, Window | None]] = []

    def __call__(self, *args: Any, **options: Any) -> Tensor | None:
        """The mask; True or zero where a token is seen."""
        local = options.get("local_size")
        if local is not None:
            options |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
        mask: Tensor | None = self.make(*args, **options)
        if mask is not None and local is not None:
            self.windows.append((mask, window_at(options["mask_function"], int(local))))
        return mask

    def local(self, mask: Tensor | None) -> tuple[bool, Window | None]:
        """Whether a mask was made to be local, and its window if it is one (chunks are local and no window)."""
        for made, window in self.windows:
            if mask is not None and made.data_ptr() == mask.data_ptr():
                return True, window
        return False, None


def window_at(mask_function: Callable[..., Any], width: int) -> Window | None:
    """The window of a mask function, asked far from the beginning at two neighbouring tokens; None if they differ."""
    found = set()
    zero = torch.tensor(0)
    for row in (4 * width, 4 * width + 1):
        columns = torch.arange(row - 2 * width, row + 2 * width + 1)
        try:
            places = columns[mask_function(zero, zero, torch.tensor(row), columns).expand(columns.shape)]
        except IndexError:  # it looks something up for every token of the text
            return None
        if not len(places):
            return None
        found.add((row - int(places.min()), int(places.max()) - row, len(places)))
    before, after, count = found.pop()
    return None if found or count != before + after + 1 else Window(before, after)


@contextmanager
def registered(attend: Attend, masks: MaskMaker) -> Iterator[None]:
    """Both functions under NAME inside, and no such name afterwards."""
    from transformers import AttentionInterface, AttentionMaskInterface

    attention: Any = AttentionInterface
    masking: Any = AttentionMaskInterface
    try:
        attention.register(NAME, attend)
        masking.register(NAME, masks)
        yield
    finally:
        attention._global_mapping.pop(NAME, None)
        masking._global_mapping.pop(NAME, None)


def scale_of(query: Tensor, scaling: float | None) -> float:
    """The factor of the logits; none given means one over the root of the head width."""
    return float(query.shape[-1] ** -0.5 if scaling is None else scaling)


def seen_by(module: nn.Module, call: dict[str, Any], mask: Tensor | None, length: int, *, eager: bool) -> Tensor | None:
    """The mask that counts: where none is given, sdpa asks the module whether it is causal, and eager does not."""
    if mask is not None or eager or length < 2:
        return mask
    causal = call.get("is_causal")
    causal = getattr(module, "is_causal", True) if causal is None else causal
    return torch.ones(length, length, dtype=torch.bool).tril()[None, None] if causal else None


def attended(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """Plain attention as [samples, tokens, heads, width], for the model to run on with."""
    repeats = query.shape[1] // key.shape[1]
    key, value = (each.repeat_interleave(repeats, dim=1) if repeats > 1 else each for each in (key, value))
    logits = query @ key.transpose(-1, -2) * scale
    if mask is not None:
        mask = mask[..., : key.shape[-2]].to(logits.device)
        logits = logits.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else logits + mask
    weights = logits.softmax(-1).nan_to_num(0.0).to(value.dtype)
    return (weights @ value).transpose(1, 2).contiguous()

"""What a model reads: token ids or pixels, how many, and an arbitrary batch of them to look at it with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor, nn

from robust_attn.types import UserError

CHECK_SAMPLES = 2
CHECK_TOKENS = 12
LENGTHS = ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "n_ctx")
"""Names under which configurations say how many positions a model has."""


@dataclass(frozen=True)
class Reading:
    """`vocabulary` is None for a model of images, `image_shape` (channels, height, width) None for one of text.

    `max_tokens` is None where positions have no limit; ids below `first_id` are padding and what comes before it.
    """

    vocabulary: int | None
    image_shape: tuple[int, int, int] | None = None
    max_tokens: int | None = None
    first_id: int = 0

    def batch(self, samples: int, dtype: torch.dtype, *, tokens: int = CHECK_TOKENS) -> Shaped[Tensor, "samples ..."]:
        """Arbitrary token ids or pixels, the same every time."""
        generator = torch.Generator().manual_seed(0)
        if self.image_shape is not None:
            return torch.randn((samples, *self.image_shape), generator=generator).to(dtype)
        length = tokens if self.max_tokens is None else min(tokens, self.max_tokens)
        return torch.randint(self.first_id, self.vocabulary or 1, (samples, length), generator=generator)


def body_of(module: nn.Module) -> nn.Module:
    """The model without its head, which is where the attention layers are."""
    body = getattr(module, "base_model", module)
    return body if isinstance(body, nn.Module) else module


def reading_of(module: Any) -> Reading:
    """What a model of transformers says that it reads; neither text nor images is refused."""
    body: Any = body_of(module)
    config = body.config
    kind = getattr(body, "main_input_name", "input_ids")
    if kind == "pixel_values":
        return Reading(None, image_shape(config))
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    vocabulary = getattr(text, "vocab_size", None)
    if kind != "input_ids" or vocabulary is None:
        raise UserError(
            f"a model of type {config.model_type} reads {kind}; only token ids and images can be given to it"
        )
    return Reading(int(vocabulary), None, _positions(body, text), first_usable(text, int(vocabulary)))


def image_shape(config: Any) -> tuple[int, int, int]:
    """Channels, height and width."""
    if getattr(config, "image_size", None) is None:
        raise UserError(f"a model of type {config.model_type} does not say how large its images are (image_size)")
    size = config.image_size
    height, width = (size, size) if isinstance(size, int) else (size[0], size[-1])
    return int(getattr(config, "num_channels", 3)), int(height), int(width)


def first_usable(config: Any, vocabulary: int) -> int:
    """One past the padding id if that is among the first ids, else 0; RoBERTa gives padding no position."""
    padding = getattr(config, "pad_token_id", None)
    return padding + 1 if padding is not None and 0 <= padding + 1 < min(vocabulary, 100) else 0


def _positions(body: nn.Module, config: Any) -> int | None:
    """How many tokens the model has positions for.

    Where positions are counted from the padding index on (RoBERTa), that many are never used. Rotary frequencies that
    change with the length of the text do so beyond the length that the model was made for at first: that is the limit.
    """
    given = [getattr(config, name) for name in LENGTHS if isinstance(getattr(config, name, None), int)]
    limits = [int(each) for each in given if each > 0][:1]
    for name, part in body.named_modules():
        if isinstance(part, nn.Embedding) and name.endswith("position_embeddings") and part.padding_idx is not None:
            limits.append(part.num_embeddings - part.padding_idx - 1)
    limits += [int(each) for each in _original_lengths(getattr(config, "rope_parameters", None))]
    return min(limits, default=None)


def _original_lengths(rope: Any) -> list[int]:
    """Lengths up to which rotary frequencies stay as they are; settings may be nested, one set per kind of layer."""
    if not isinstance(rope, dict):
        return []
    nested = [length for inner in rope.values() for length in _original_lengths(inner)]
    changing = "dynamic" in str(rope.get("rope_type")) or rope.get("rope_type") == "longrope"
    original = rope.get("original_max_position_embeddings")
    return [*nested, int(original)] if changing and original else nested

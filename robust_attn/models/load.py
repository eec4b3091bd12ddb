"""Models by name, checked against their own forward pass before anybody gets them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from robust_attn.models.build import in_float64, pretrained_module, random_module, tokenizer_from, tokenizer_in
from robust_attn.models.catalog import spec_of
from robust_attn.models.model import AttentionModel
from robust_attn.models.registry import adapter_for
from robust_attn.models.selfcheck import COARSE, TOLERANCES, checked_differences
from robust_attn.models.weights import WeightsOrigin, resolve
from robust_attn.records.home import without_home
from robust_attn.types import LARGEST_SEED, UserError

CHECK_SAMPLES = 2
CHECK_TOKENS = 12


def load_model(
    name: str,
    weights: str = "auto",
    *,
    tokenizer: str | None = None,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
    sizes: Mapping[str, Any] | None = None,
) -> AttentionModel:
    """A model of the catalog in evaluation mode on the CPU, its weights rounded to `dtype`.

    `weights` is auto, random, pretrained or a folder; `.origin` says what it came to. `tokenizer` is a folder to take
    the tokenizer from, by default that of the weights. `seed` and `sizes` (keywords of the model's configuration) are
    for random weights. The global random state is left as it was.
    """
    spec = spec_of(name)
    if dtype not in TOLERANCES:
        raise UserError(f"dtype must be one of {', '.join(str(known) for known in TOLERANCES)}, got {dtype}")
    if sizes and weights != "random" and not spec.only_random:
        raise UserError(f"sizes can be chosen for random weights only, but weights are {weights!r}")
    if not 0 <= seed <= LARGEST_SEED:
        raise UserError(f"seed must be a whole number from 0 to {LARGEST_SEED}, got {seed}")
    given = None if tokenizer is None else tokenizer_from(tokenizer)
    resolved = resolve(spec, weights, seed=seed)
    if resolved.folder is None:
        module = random_module(spec, sizes or {}, seed=seed, dtype=dtype)
    else:
        module = pretrained_module(resolved.folder, dtype=dtype)
    if tokenizer is None:
        own = None if resolved.folder is None else tokenizer_in(resolved.folder)
        return checked_model(name, resolved.origin, module, tokenizer=own)
    if _image_shape(module.config) is not None:
        raise UserError(f"{name} reads images, so it takes no tokenizer")
    return checked_model(name, _read_through(tokenizer, resolved.origin), module, tokenizer=given)


def checked_model(name: str, origin: WeightsOrigin, module: nn.Module, *, tokenizer: Any | None) -> AttentionModel:
    """A module of any supported architecture with its layers taken out, if they do what the module does.

    In bfloat16 that says little, so the same weights are compared in float64 before: there the maps must agree.
    """
    config: Any = module.config
    adapter = adapter_for(config.model_type)
    attached = adapter.layers(module)
    if not attached:
        raise UserError(f"{name} has no attention layers")
    dtype = attached[0].weights.dtype
    shape, vocabulary, limit = _image_shape(config), getattr(config, "vocab_size", None), adapter.max_tokens(config)
    batch = _check_batch(shape, vocabulary, limit, dtype)
    if dtype in COARSE:
        with in_float64(module):
            exact = _check_batch(shape, vocabulary, limit, torch.float64)
            checked_differences(module, adapter.layers(module), exact, torch.float64)
    return AttentionModel(
        name=name,
        architecture=adapter.architecture,
        origin=origin,
        module=module,
        attached=attached,
        differences=checked_differences(module, attached, batch, dtype),
        max_tokens=limit,
        vocabulary=vocabulary,
        image_shape=shape,
        tokenizer=tokenizer,
    )


def _read_through(tokenizer: str, origin: WeightsOrigin) -> WeightsOrigin:
    """The origin with a note about the folder that the tokenizer was taken from."""
    said = f"text is read through the tokenizer in {without_home(tokenizer)}"
    return replace(origin, note=said if origin.note is None else f"{origin.note}; {said}")


def _image_shape(config: Any) -> tuple[int, int, int] | None:
    if not hasattr(config, "image_size"):
        return None
    return int(config.num_channels), int(config.image_size), int(config.image_size)


def _check_batch(
    shape: tuple[int, int, int] | None, vocabulary: int | None, limit: int | None, dtype: torch.dtype
) -> Tensor:
    """Arbitrary token ids or pixels for the self-check, the same every time."""
    generator = torch.Generator().manual_seed(0)
    if shape is not None:
        return torch.randn((CHECK_SAMPLES, *shape), generator=generator).to(dtype)
    tokens = CHECK_TOKENS if limit is None else min(CHECK_TOKENS, limit)
    return torch.randint(0, vocabulary or 1, (CHECK_SAMPLES, tokens), generator=generator)

"""Models by name, checked against their own forward pass before anybody gets them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from robust_attn.models.build import image_processor_in, pretrained_module, random_module, tokenizer_from, tokenizer_in
from robust_attn.models.catalog import ANY, CATALOG, spec_of
from robust_attn.models.devices import device_named
from robust_attn.models.generic.as_found import evaluating, in_float64
from robust_attn.models.model import AttentionModel
from robust_attn.models.reading import CHECK_SAMPLES, Reading, body_of
from robust_attn.models.registry import adapter_for
from robust_attn.models.selfcheck import COARSE, TOLERANCES, checked_differences
from robust_attn.models.weights import WeightsOrigin, resolve
from robust_attn.records.home import without_home
from robust_attn.types import LARGEST_SEED, UserError


def load_model(
    name: str,
    weights: str = "auto",
    *,
    tokenizer: str | None = None,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
    sizes: Mapping[str, Any] | None = None,
    device: str = "cpu",
) -> AttentionModel:
    """A model of the catalog, or of a folder, in evaluation mode, its weights rounded to `dtype`.

    It is checked on the CPU and then goes to the `device` (auto, cpu, cuda, cuda:N or mps).

    `name` may be a folder: type, tokenizer and head are found there, as with the name auto and the folder as weights.
    `weights` is auto, random, pretrained or a folder; `.origin` says what it came to. `tokenizer` is a folder to take
    the tokenizer from, by default that of the weights. `seed` and `sizes` (keywords of the model's configuration) are
    for random weights. The global random state is left as it was.
    """
    expect_name(name)
    place = device_named(device)
    if name not in CATALOG and Path(name).expanduser().is_dir():
        name, weights = ANY, _only(weights, name)
    spec = spec_of(name)
    if dtype not in TOLERANCES:
        raise UserError(f"dtype must be one of {_precisions()}, got {dtype}")
    if sizes and weights != "random" and not spec.only_random:
        raise UserError(f"sizes can be chosen for random weights only, but weights are {weights!r}")
    if not 0 <= seed <= LARGEST_SEED:
        raise UserError(f"seed must be a whole number from 0 to {LARGEST_SEED}, got {seed}")
    given = None if tokenizer is None else tokenizer_from(tokenizer)
    resolved = resolve(spec, weights, seed=seed)
    if resolved.folder is None:
        module = random_module(spec, sizes or {}, seed=seed, dtype=dtype)
    else:
        module = pretrained_module(resolved.folder, dtype=dtype, spec=spec)
    if tokenizer is None:
        own = None if resolved.folder is None else tokenizer_in(resolved.folder)
        model = checked_model(name, resolved.origin, module, tokenizer=own).on(place)
        if not model.takes_images or resolved.folder is None:
            return model
        return replace(model, image_processor=image_processor_in(resolved.folder))
    read_by = _noted(resolved.origin, f"text is read through the tokenizer in {without_home(tokenizer)}")
    model = checked_model(name, read_by, module, tokenizer=given)
    if model.takes_images:
        raise UserError(f"{name} reads images, so it takes no tokenizer")
    return model.on(place)


def _only(weights: str, folder: str) -> str:
    """The folder that was given in place of a name, if nothing else was given."""
    if weights != "auto":
        raise UserError(f"the folder {folder} already says which weights are meant, but weights are {weights!r}")
    return folder


def checked_model(name: str, origin: WeightsOrigin, module: nn.Module, *, tokenizer: Any | None) -> AttentionModel:
    """A module of any supported architecture with its layers taken out, if they do what the module does.

    In bfloat16 that says little, so the same weights are compared in float64 before: there the maps must agree. The
    module is left as it was found.
    """
    config: Any = module.config
    body, adapter = body_of(module), adapter_for(config.model_type)
    taken = adapter.taken_out(module)
    if not taken.attached:
        raise UserError(f"{name} has no attention layers{'' if taken.note is None else f' to speak of: {taken.note}'}")
    dtype = taken.attached[0].weights.dtype
    with evaluating(module):
        if dtype in COARSE:
            with in_float64(module):
                again, exact = adapter.taken_out(module), _check_batch(taken.reading, module, torch.float64)
                checked_differences(body, again.attached, exact, torch.float64, rounds=taken.rounds)
        batch = _check_batch(taken.reading, module, dtype)
        differences = checked_differences(body, taken.attached, batch, dtype, rounds=taken.rounds)
    return AttentionModel(
        name=name,
        architecture=config.model_type,
        origin=_noted(origin, taken.note),
        module=module,
        attached=taken.attached,
        differences=differences,
        max_tokens=taken.reading.max_tokens,
        vocabulary=taken.reading.vocabulary,
        image_shape=taken.reading.image_shape,
        tokenizer=tokenizer,
    )


def wrap(module: nn.Module, tokenizer: Any | None = None, *, name: str | None = None) -> AttentionModel:
    """A model of transformers that is in memory already, with or without a head, left exactly as it is found.

    Its layers are those of the weights that it has now, on its device and in its precision; weights that are changed
    in place afterwards are changed in the layers too, so wrap it again. Text needs the model's own tokenizer.
    """
    expect_model(module)
    config: Any = module.config
    dtype = next(module.parameters()).dtype
    if dtype not in TOLERANCES:
        raise UserError(f"the model's precision must be one of {_precisions()}, it is {dtype}")
    given = tokenizer_from(tokenizer) if isinstance(tokenizer, str) else tokenizer
    origin = WeightsOrigin(f"memory:{type(module).__name__}")
    return checked_model(name or str(config.model_type), origin, module, tokenizer=given)


def _noted(origin: WeightsOrigin, note: str | None) -> WeightsOrigin:
    """The origin with one more thing that a reader must know."""
    if note is None:
        return origin
    return replace(origin, note=note if origin.note is None else f"{origin.note}; {note}")


def _precisions() -> str:
    return ", ".join(str(known) for known in TOLERANCES)


def _check_batch(reading: Reading, module: nn.Module, dtype: torch.dtype) -> Tensor:
    return reading.batch(CHECK_SAMPLES, dtype).to(next(module.parameters()).device)


def expect_name(given: object) -> None:
    """A UserError that says what to do if something else than a name was given, such as the model itself."""
    if not isinstance(given, str):
        raise UserError(
            f"models are loaded by name or folder, and taken in memory by wrap(module, tokenizer); got a "
            f"{type(given).__name__}"
        )


def expect_model(given: object) -> None:
    """A UserError that says what to do if something else than a model of transformers was given."""
    config = getattr(given, "config", None)
    if not isinstance(given, nn.Module) or getattr(config, "model_type", None) is None:
        raise UserError(
            f"expected a model of transformers, got {type(given).__name__}; "
            "for torch's nn.MultiheadAttention there is from_multihead_attention"
        )

"""Whatever is changed about a module for a while is afterwards as it was found, also after a failure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode inside; every part in its own mode afterwards."""
    modes = [(part, part.training) for part in module.modules()]
    try:
        module.eval()
        with experts_one_by_one(module):
            yield
    finally:
        for part, training in modes:
            part.training = training


@contextmanager
def in_float64(module: nn.Module) -> Iterator[None]:
    """The same weights in float64 inside, and as they were afterwards; see `floating_tensors`."""
    kept = [(tensor, tensor.data) for tensor in floating_tensors(module)]
    try:
        for tensor, data in kept:
            tensor.data = data.to(torch.float64)
        with experts_one_by_one(module):
            yield
    finally:
        for tensor, data in kept:
            tensor.data = data


def floating_tensors(module: nn.Module) -> list[Tensor]:
    """What has the precision of a model: its parameters, and the buffers of parts that have parameters (statistics).

    Other buffers (rotary frequencies) stay in float32, as the models expect.
    """
    found: dict[int, Tensor] = {}
    for part in module.modules():
        own = [each for each in part.parameters(recurse=False) if each.is_floating_point()]
        beside = [each for each in part.buffers(recurse=False) if each.is_floating_point()] if own else []
        found |= {id(each): each for each in (*own, *beside)}
    return list(found.values())


@contextmanager
def attending_by(module: nn.Module, name: str) -> Iterator[None]:
    """Every part of the model looks its attention function up under `name` inside."""
    with _configured(module, "_attn_implementation_internal", name):
        yield


@contextmanager
def experts_one_by_one(module: nn.Module) -> Iterator[None]:
    """Mixtures of experts in float64 compute them one by one inside: the kernel that groups them knows no float64."""
    exact = next((each.dtype == torch.float64 for each in module.parameters()), False)
    if not exact:
        yield
        return
    with _configured(module, "_experts_implementation_internal", "eager"):
        yield


@contextmanager
def _configured(module: nn.Module, name: str, value: str) -> Iterator[None]:
    """The attribute of every configuration that has it inside, and what it was afterwards."""
    kept = [(config, getattr(config, name)) for config in model_configs(module) if hasattr(config, name)]
    try:
        for config, _ in kept:
            setattr(config, name, value)
        yield
    finally:
        for config, found in kept:
            setattr(config, name, found)


def model_configs(module: nn.Module) -> list[Any]:
    """Every configuration that some part of the model reads its attention implementation from, once."""
    found: dict[int, Any] = {}

    def add(config: Any) -> None:
        if hasattr(config, "_attn_implementation_internal") and id(config) not in found:
            found[id(config)] = config
            for name in getattr(config, "sub_configs", {}):
                add(getattr(config, name, None))

    for part in module.modules():
        add(getattr(part, "config", None))
    return list(found.values())

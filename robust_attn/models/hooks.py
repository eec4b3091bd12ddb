"""Watching the inputs and outputs of modules while the whole model runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Spot:
    """A place in a running model: a module, and which of its calls in one pass is meant, counted from 0.

    Models that share a module between layers call it several times.
    """

    module: nn.Module
    call: int = 0


@dataclass(frozen=True, eq=False)
class Watched:
    """First inputs of the sources and first outputs of the sinks, in the order the modules were given."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


def watch(
    model: nn.Module,
    batch: Tensor | Mapping[str, Any],
    *,
    sources: Sequence[Spot] = (),
    sinks: Sequence[Spot] = (),
    options: Mapping[str, Any] | None = None,
) -> Watched:
    """One pass of the whole model without gradients; `options` are passed to it beside the batch.

    A batch of several tensors is given by the names that the model knows them under.
    """
    inputs: dict[int, Tensor] = {}
    outputs: dict[int, Tensor] = {}
    with ExitStack() as stack, torch.no_grad():
        for index, spot in enumerate(sources):
            stack.enter_context(
                spot.module.register_forward_pre_hook(_keep_input(inputs, index, spot), with_kwargs=True)
            )
        for index, spot in enumerate(sinks):
            stack.enter_context(spot.module.register_forward_hook(_keep_output(outputs, index, spot)))
        if isinstance(batch, Tensor):
            model(batch, **(options or {}))
        else:
            model(**batch, **(options or {}))
    return Watched(
        tuple(inputs[index] for index in range(len(sources))), tuple(outputs[index] for index in range(len(sinks)))
    )


def _keep_input(kept: dict[int, Tensor], index: int, spot: Spot) -> Any:
    """A hook that keeps the first input of the spot's own call."""
    calls = count()

    def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if next(calls) == spot.call:
            kept[index] = (args[0] if args else kwargs["hidden_states"]).detach()

    return hook


def _keep_output(kept: dict[int, Tensor], index: int, spot: Spot) -> Any:
    """A hook that keeps the first output of the spot's own call."""
    calls = count()

    def hook(_module: nn.Module, _args: Any, output: Any) -> None:
        if next(calls) == spot.call:
            kept[index] = (output[0] if isinstance(output, tuple) else output).detach()

    return hook

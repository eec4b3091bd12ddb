"""Whether the tensors of a weights file are those of the model that its config.json describes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from robust_attn.types import UserError

CONSTANTS = (".attn.masked_bias",)
"""Endings of names inside the layers of old files that are no weights: GPT-2 once stored the value it masks with."""


def check_tensors(folder: Path, module: nn.Module, info: Mapping[str, Any]) -> None:
    """Refuses a model of which `info`, what transformers says about the loading, tells that it is not the file's own.

    A tensor may have another shape, be missing, or belong to a layer of the file and not to the model. Tensors beside
    the layers (a pooler, the head of a classifier) may be left out: attention layers do not depend on them.
    """
    _check_shapes(folder, info["mismatched_keys"])
    missing = sorted(info["missing_keys"])
    if missing:
        raise UserError(
            f"the weights in {folder} lack {len(missing)} parameters of the model, for example {missing[0]}"
        )
    unused = left_out(module, info["unexpected_keys"])
    if unused:
        raise UserError(
            f"the model that {folder / 'config.json'} describes leaves out {len(unused)} tensors of the layers in its "
            f"weights, for example {unused[0]}; see whether the number of layers there is that of the weights"
        )


def left_out(module: nn.Module, unexpected: Iterable[str]) -> list[str]:
    """Those of the names of unused tensors that lie inside the model's lists of layers."""
    lists = tuple(f"{name}." for name, part in module.named_modules() if isinstance(part, nn.ModuleList))
    prefix = f"{getattr(module, 'base_model_prefix', '')}."
    inside = [name for name in unexpected if name.startswith(lists) or name.removeprefix(prefix).startswith(lists)]
    return sorted(name for name in inside if not name.endswith(CONSTANTS))


def _check_shapes(folder: Path, mismatched: Iterable[tuple[str, Iterable[int], Iterable[int]]]) -> None:
    """`mismatched` has name, shape in the file and shape in the model of every tensor of which the two differ."""
    found = sorted((name, list(stored), list(wanted)) for name, stored, wanted in mismatched)
    if found:
        name, stored, wanted = found[0]
        others = f", and {len(found) - 1} more tensors differ" if len(found) > 1 else ""
        raise UserError(
            f"the weights in {folder} are not those that its config.json describes: {name} has shape {stored} in the "
            f"file and {wanted} in the model{others}"
        )

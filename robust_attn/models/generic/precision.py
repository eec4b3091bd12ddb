"""Models that round to float32 inside, run without that rounding."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

COARSER = frozenset({torch.float32, torch.float16, torch.bfloat16})


class KeepFloat64(TorchFunctionMode):
    """What is float64 stays float64, whatever the model asks for; what is computed in float32 from the start is left.

    Many models turn queries and keys, or take the softmax, in float32 in every precision. Such a model differs from
    its own formula by rounding, which this mode takes away, so that rounding and other differences can be told apart.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        options = dict(kwargs or {})
        given = args[0] if args else options.get("input")
        if isinstance(given, Tensor) and given.dtype == torch.float64:
            if func in (Tensor.float, Tensor.half, Tensor.bfloat16):
                return given
            if func in (Tensor.to, Tensor.type):
                args = tuple(torch.float64 if _coarser(each) else each for each in args)
            elif func is Tensor.type_as:
                return given
            if _coarser(options.get("dtype")):
                options["dtype"] = torch.float64
            args = (args[0], *(torch.float64 if _coarse_type(each) else each for each in args[1:])) if args else args
        return func(*args, **options)


def _coarser(value: Any) -> bool:
    """A coarser precision, or a tensor of one that stands for it."""
    return _coarse_type(value) or (isinstance(value, Tensor) and value.dtype in COARSER)


def _coarse_type(value: Any) -> bool:
    return isinstance(value, torch.dtype) and value in COARSER

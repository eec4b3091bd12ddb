"""A device that is none: tensors that say they are elsewhere, compute on the CPU, and refuse to meet CPU tensors.

There is no GPU where these tests run. What a GPU would refuse (an operation on tensors of two devices, a NumPy view of
a tensor elsewhere, a CPU generator used there), this device refuses too; what it would compute, this one computes.
Torch knows the device as "meta", the only one besides the CPU that every build of torch has; nothing else of torch's
meta tensors, which hold no numbers, is used. Factories (`torch.zeros(n, device=x.device)`) need the mode `pretending`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map

ELSEWHERE = torch.device("meta")
MAY_CROSS = (
    torch.ops.aten._to_copy.default,
    torch.ops.aten.copy_.default,
    torch.ops.aten.index.Tensor,
    torch.ops.aten.index_put_.default,
)
"""Copies between devices; and indices may be on the CPU, as a GPU allows."""


class MixedDevicesError(RuntimeError):
    """An operation met tensors of two devices."""


class Elsewhere(Tensor):
    """A tensor on the device that is none."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> Elsewhere:
        made: Elsewhere = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=ELSEWHERE,
        )
        made.inner = inner.detach()
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Elsewhere({self.inner!r})"

    def tolist(self) -> Any:
        return self.inner.tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(func, args, kwargs or {})


class _Factories(TorchDispatchMode):
    """Makes new tensors on the device that is none where that is asked for."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(func, args, kwargs or {})


class _Literals(TorchFunctionMode):
    """Numbers in `torch.tensor`, `torch.as_tensor` and lists of indices are written on the CPU first.

    Torch itself would drop them on their way to a meta tensor.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.tensor, torch.as_tensor) and kwargs.get("device") == ELSEWHERE:
            if isinstance(args[0], Elsewhere):
                return args[0].to(kwargs.get("dtype") or args[0].dtype)
            return func(*args, **{**kwargs, "device": None}).to(ELSEWHERE)
        if func is Tensor.__getitem__ and isinstance(args[1], list):
            args = (args[0], torch.tensor(args[1]))
        return func(*args, **kwargs)


@contextmanager
def pretending() -> Iterator[None]:
    """While this lasts, `device=ELSEWHERE` makes tensors that hold numbers."""
    with _Literals(), _Factories():
        yield


def elsewhere(tensor: Tensor) -> Tensor:
    """The same numbers on the device that is none."""
    return tensor if isinstance(tensor, Elsewhere) else Elsewhere(tensor)


def brought_back(tensor: Tensor) -> Tensor:
    """The same numbers on the CPU."""
    return tensor.inner if isinstance(tensor, Elsewhere) else tensor


def _computed(func: Any, args: Any, kwargs: Any) -> Any:
    tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
    there = [each for each in tensors if isinstance(each, Elsewhere)]
    if any(each.device == ELSEWHERE and not isinstance(each, Elsewhere) for each in tensors):
        raise NotImplementedError(f"{func} met numbers that this device has lost")
    asked = kwargs.get("device")
    crossing = func in MAY_CROSS
    if there and not crossing and any(not isinstance(each, Elsewhere) and each.ndim > 0 for each in tensors):
        raise MixedDevicesError(f"{func} met tensors of two devices")
    if (there or asked == ELSEWHERE) and isinstance(kwargs.get("generator"), torch.Generator):
        raise MixedDevicesError(f"{func} draws elsewhere with a generator of the CPU")
    goes_there = bool(there) if asked is None else asked == ELSEWHERE
    if func is torch.ops.aten.copy_.default:
        goes_there = isinstance(args[0], Elsewhere)
    if asked is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    result = func(*tree_map(_inner, args), **tree_map(_inner, kwargs))
    if not goes_there:
        return result
    wrapped = tree_map(lambda each: Elsewhere(each) if isinstance(each, Tensor) else each, result)
    return return_and_correct_aliasing(func, args, kwargs, wrapped)


def _inner(value: Any) -> Any:
    return value.inner if isinstance(value, Elsewhere) else value

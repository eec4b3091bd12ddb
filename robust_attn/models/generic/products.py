"""Attention that a module computes by itself, seen while it runs: a product, a softmax, a product."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from robust_attn.models.generic.interface import scale_of
from robust_attn.models.generic.logits import Fit, fitted_logits

PRODUCTS = frozenset({"matmul", "__matmul__", "bmm", "baddbmm"})
REMEMBERED = 8
"""Products before a softmax that may have made its logits."""


@dataclass(frozen=True, eq=False)
class SeenAttention:
    """What an attention function would have been given, and its result: [samples, heads, tokens, width] all."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    scaling: float
    made: Tensor


@dataclass(frozen=True, eq=False)
class _Weighed:
    """The weights of a softmax, and the queries, keys, scale and mask that made them."""

    query: Tensor
    key: Tensor
    fit: Fit
    weights: Tensor


class Products(TorchFunctionMode):
    """Tells `caught` of every product with weights that a softmax made of another product, and of torch's own function.

    Dropout, a change of precision or of shape may lie between: weights are known by their numbers. `samples` says how
    many samples the model is being run on, for modules that put samples and heads in one axis.
    """

    def __init__(self, caught: Callable[[SeenAttention], None], samples: Callable[[], int | None]) -> None:
        super().__init__()
        self.caught, self.samples = caught, samples
        self.paused = False
        self.pairs: deque[tuple[Tensor, Tensor]] = deque(maxlen=REMEMBERED)
        self.weighed: _Weighed | None = None

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        options = dict(kwargs or {})
        made = func(*args, **options)
        name = getattr(func, "__name__", "")
        if self.paused or not isinstance(made, Tensor):
            return made
        if name in PRODUCTS:
            self._multiplied([*args, *options.values()][-2 if name != "baddbmm" else 1 :][:2], made)
        elif name == "softmax":
            self._weighed(args[0] if args else options["input"], made)
        elif name == "scaled_dot_product_attention":
            self._attended(made, *args, **options)
        return made

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Nothing is looked at inside."""
        before, self.paused = self.paused, True
        try:
            yield
        finally:
            self.paused = before

    def _multiplied(self, operands: list[Tensor], made: Tensor) -> None:
        left, right = operands
        weighed = self.weighed
        if weighed is not None and _same_numbers(left, weighed.weights):
            self.weighed = None
            self.pairs.clear()
            value, result = self._by_heads(right), self._by_heads(made)
            if value is not None and result is not None:
                fit = weighed.fit
                self.caught(SeenAttention(weighed.query, weighed.key, value, fit.mask, fit.scale, result))
        elif left.ndim > 2:
            self.pairs.append((left, right))

    def _weighed(self, logits: Tensor, weights: Tensor) -> None:
        """Remembers the product that the logits are a multiple of, up to a mask and a bias; else the last one."""
        self.weighed, wanted = None, self._by_heads(logits)
        shares = None if wanted is None else self._by_heads(weights)
        for left, right in reversed(self.pairs):
            query, key = self._by_heads(left), self._by_heads(right.transpose(-1, -2))
            if wanted is None or shares is None or query is None or key is None:
                continue
            if _product_shape(query, key) != wanted.shape:
                continue
            found = _Weighed(query, key, fitted_logits(query, key, wanted, shares), weights)
            self.weighed = self.weighed or found
            if found.fit.exact:
                self.weighed = found
                return

    def _attended(  # noqa: PLR0917
        self,
        made: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,  # noqa: ARG002
        is_causal: bool = False,
        scale: float | None = None,
        **_: Any,
    ) -> None:
        """Torch's own function was called."""
        if is_causal:
            attn_mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()[None, None]
        fields = [self._by_heads(each) for each in (query, key, value, made)]
        if not any(each is None for each in fields):
            query, key, value, made = (each for each in fields if each is not None)
            self.caught(SeenAttention(query, key, value, attn_mask, scale_of(query, scale), made))

    def _by_heads(self, field: Tensor) -> Tensor | None:
        """A field as [samples, heads, tokens, width], None if it has other axes."""
        if field.ndim == 4:
            return field
        samples = self.samples()
        if field.ndim != 3 or not samples or len(field) % samples:
            return None
        return field.unflatten(0, (samples, -1))


def _product_shape(left: Tensor, right: Tensor) -> torch.Size | None:
    """Of left times the transpose of right, None if there is no such product."""
    if left.shape[-1] != right.shape[-1]:
        return None
    try:
        outer = torch.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except RuntimeError:
        return None
    return torch.Size((*outer, left.shape[-2], right.shape[-2]))


def _same_numbers(left: Tensor, right: Tensor) -> bool:
    fits = left.numel() == right.numel() and left.shape[-1] == right.shape[-1]
    if not fits:
        return False
    left, right = left.reshape(right.shape), right.to(left.dtype)
    return bool(((left == right) | (left.isnan() & right.isnan())).all())

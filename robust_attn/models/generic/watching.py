"""A pass of the real model with everything written down."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from robust_attn.models.generic.as_found import attending_by
from robust_attn.models.generic.events import CallEvent, LinearEvent, Log, NormEvent
from robust_attn.models.generic.interface import (
    NAME,
    MaskMaker,
    attended,
    registered,
    scale_of,
    seen_by,
)
from robust_attn.models.hooks import Spot

Run = Callable[[], object]


def linear_kind(module: nn.Module) -> bool:
    """Whether a module is a plain linear map: nn.Linear, or the Conv1D of GPT-2."""
    return type(module).__name__ in {"Linear", "Conv1D", "NonDynamicallyQuantizableLinear"} and hasattr(
        module, "weight"
    )


def is_norm(module: nn.Module) -> bool:
    """Whether a module may be a normalisation of tokens; what it computes is looked at later."""
    return "norm" in type(module).__name__.lower() and next(module.children(), None) is None


def pools_tokens(module: nn.Module, args: tuple[Any, ...], made: Any) -> bool:
    """Whether one query of its own looks at all tokens: [samples, tokens, width] become one vector per sample."""
    given = [each for each in args if isinstance(each, Tensor)]
    if isinstance(module, nn.MultiheadAttention):
        return len(given) > 1 and given[0].shape[-2] == 1 < given[1].shape[-2]
    out = made[0] if isinstance(made, tuple) and made else made
    if not given or not isinstance(out, Tensor) or given[0].ndim != 3 or given[0].shape[1] < 2:
        return False
    return out.shape[0] == given[0].shape[0] and (out.ndim == 2 or (out.ndim == 3 and out.shape[1] == 1))


class Watch:
    """Collects the events of one pass of a model that attends as `implementation` does."""

    def __init__(self, implementation: str | None) -> None:
        self.masks = MaskMaker(implementation)
        self.eager = implementation in (None, "eager")
        self.orders = itertools.count()
        self.counts: dict[int, int] = {}
        self.linears: list[LinearEvent] = []
        self.norms: list[NormEvent] = []
        self.calls: list[CallEvent] = []
        self.attentions: dict[int, nn.Module] = {}
        self.pools: set[int] = set()

    @property
    def log(self) -> Log:
        """What has been written down."""
        attentions = tuple(self.attentions.values())
        return Log(tuple(self.linears), tuple(self.norms), tuple(self.calls), attentions, frozenset(self.pools))

    def attend(  # noqa: PLR0917
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None = None,
        scaling: float | None = None,
        **extras: Any,
    ) -> tuple[Tensor, None]:
        """The attention function that the model calls."""
        scale = scale_of(query, scaling)
        mask = seen_by(module, extras, attention_mask, query.shape[-2], eager=self.eager)
        made = self.result(query, key, value, mask, scale)
        local = self.masks.local(attention_mask)
        order = next(self.orders)
        self.calls.append(CallEvent(order, module, query, key, value, mask, local, scale, extras, made))
        return made, None

    def result(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float) -> Tensor:
        """What the model goes on with."""
        return attended(query, key, value, mask, scale)

    def chosen_input(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:  # noqa: ARG002
        """What a linear map is given in place of its input, None to leave it as it is."""
        return None

    def linear_ran(self, module: nn.Module, args: tuple[Any, ...], made: Any) -> None:
        """Writes a linear map down."""
        number = self.counts.get(id(module), 0)
        self.counts[id(module)] = number + 1
        if args and isinstance(made, Tensor):
            self.linears.append(LinearEvent(next(self.orders), Spot(module, number), args[0], made))

    def attention_ran(self, module: nn.Module, args: tuple[Any, ...], made: Any) -> None:
        """Writes down that a module which is called attention ran, and whether it made one vector of all tokens."""
        self.attentions[id(module)] = module
        if pools_tokens(module, args, made):
            self.pools.add(id(module))

    def norm_ran(self, module: nn.Module, args: tuple[Any, ...], made: Any) -> None:
        """Writes a norm down."""
        if args and isinstance(args[0], Tensor) and isinstance(made, Tensor):
            self.norms.append(NormEvent(next(self.orders), module, args[0], made))


def run_watched(module: nn.Module, run: Run, watch: Watch) -> None:
    """One pass of the model, without gradients. The module, its hooks and the interface are as before afterwards."""
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(registered(watch.attend, watch.masks))
        stack.enter_context(attending_by(module, NAME))
        stack.enter_context(_hooked(module, watch))
        run()


@contextmanager
def _hooked(module: nn.Module, watch: Watch) -> Iterator[None]:
    with ExitStack() as stack:
        for part in module.modules():
            if linear_kind(part):
                stack.enter_context(part.register_forward_pre_hook(watch.chosen_input))
                stack.enter_context(part.register_forward_hook(watch.linear_ran))
            elif is_norm(part):
                stack.enter_context(part.register_forward_hook(watch.norm_ran))
            elif "attention" in type(part).__name__.lower():
                stack.enter_context(part.register_forward_hook(watch.attention_ran))
        yield

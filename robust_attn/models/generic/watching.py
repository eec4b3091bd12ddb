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
from robust_attn.models.generic.products import Products, SeenAttention
from robust_attn.models.hooks import Spot

Run = Callable[[], object]


def linear_kind(module: nn.Module) -> bool:
    """Whether a module is a plain linear map: nn.Linear or a kind of it, or the Conv1D of GPT-2."""
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or not weight.is_floating_point():
        return False
    if isinstance(module, nn.Linear):
        return weight.shape == (module.out_features, module.in_features)
    return type(module).__name__ == "Conv1D"


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
    """Collects the events of one pass of a model that attends as `implementation` does.

    A model that computes attention `by_itself`, without the interface, is left to do so as it was found.
    """

    def __init__(self, implementation: str | None, *, by_itself: bool = False) -> None:
        self.by_itself = by_itself
        self.masks = MaskMaker(implementation)
        self.eager = implementation in (None, "eager")
        self.orders = itertools.count()
        self.counts: dict[int, int] = {}
        self.linears: list[LinearEvent] = []
        self.norms: list[NormEvent] = []
        self.calls: list[CallEvent] = []
        self.attentions: dict[int, nn.Module] = {}
        self.pools: set[int] = set()
        self.running: list[tuple[nn.Module, tuple[Tensor, ...]]] = []
        self.products = Products(self.caught, self.samples)

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
        with self.products.pause():
            mask = seen_by(module, extras, attention_mask, query.shape[-2], eager=self.eager)
            made = self.result(query, key, value, mask, scale)
            local = self.masks.local(attention_mask)
            parts = (query, key, value, mask, local, scale, extras, made, self.handed(module))
            self.called(CallEvent(next(self.orders), module, *parts))
        return made, None

    def caught(self, seen: SeenAttention) -> None:
        """Attention that the module which is running computed by itself."""
        module, made = self.running[-1][0], seen.made.transpose(1, 2).contiguous()
        parts = (seen.query, seen.key, seen.value, seen.mask, (False, None), seen.scaling)
        self.called(CallEvent(next(self.orders), module, *parts, {}, made, self.handed(module), computed=True))

    def handed(self, module: nn.Module) -> tuple[Tensor, ...]:
        """What a module that is running was given."""
        return next((given for each, given in reversed(self.running) if each is module), ())

    def called(self, call: CallEvent) -> None:
        """Writes a call down."""
        self.calls.append(call)

    def samples(self) -> int | None:
        """How many samples the whole model was given."""
        whole = self.running[0][1] if self.running else ()
        return next((len(each) for each in whole if each.ndim), None)

    def result(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float) -> Tensor:
        """What the model goes on with."""
        return attended(query, key, value, mask, scale)

    def chosen_input(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:  # noqa: ARG002
        """What a linear map is given in place of its input, None to leave it as it is."""
        return None

    def begins(self, module: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        """A module begins to run."""
        given = (each for each in (*args, *options.values()) if isinstance(each, Tensor))
        self.running.append((module, tuple(given)))

    def ends(self, *_: Any) -> None:
        """The module that began last has run."""
        self.running.pop()

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
        if not watch.by_itself:
            stack.enter_context(attending_by(module, NAME))
        stack.enter_context(_hooked(module, watch))
        stack.enter_context(watch.products)
        run()


@contextmanager
def _hooked(module: nn.Module, watch: Watch) -> Iterator[None]:
    with ExitStack() as stack:
        for part in module.modules():
            stack.enter_context(part.register_forward_pre_hook(watch.begins, with_kwargs=True))
            stack.enter_context(part.register_forward_hook(watch.ends, always_call=True))
            if linear_kind(part):
                stack.enter_context(part.register_forward_pre_hook(watch.chosen_input))
                stack.enter_context(part.register_forward_hook(watch.linear_ran))
            elif is_norm(part):
                stack.enter_context(part.register_forward_hook(watch.norm_ran))
            elif "attention" in type(part).__name__.lower():
                stack.enter_context(part.register_forward_hook(watch.attention_ran))
        yield

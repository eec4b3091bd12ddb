"""What is written down while a model runs: linear maps, norms and calls of the attention function, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from robust_attn.attention.mask import Window
from robust_attn.models.hooks import Spot


@dataclass(frozen=True, eq=False)
class LinearEvent:
    """One application of a linear map; `spot` says which module, and the how manieth of its calls this was."""

    order: int
    spot: Spot
    given: Tensor
    made: Tensor


@dataclass(frozen=True, eq=False)
class NormEvent:
    """One application of a normalisation."""

    order: int
    module: nn.Module
    given: Tensor
    made: Tensor


@dataclass(frozen=True, eq=False)
class CallEvent:
    """One call of the attention function: what it was given by which module, and what it returned.

    `local` says whether the mask was made to be local, and the window that it was made with. `computed`: the module
    called no function, it computed attention by itself, so nothing is known of its mask but what it did. `handed` is
    what the module was given.
    """

    order: int
    module: nn.Module
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    local: tuple[bool, Window | None]
    scaling: float
    extras: dict[str, Any]
    made: Tensor
    handed: tuple[Tensor, ...] = ()
    computed: bool = False

    @property
    def length(self) -> int:
        """Number of tokens that ask."""
        return int(self.query.shape[-2])


@dataclass(frozen=True, eq=False)
class Log:
    """Everything that one pass showed; `attentions` are the modules that ran and are called attention.

    `pools` are the ids of those that made one vector of all tokens.
    """

    linears: tuple[LinearEvent, ...]
    norms: tuple[NormEvent, ...]
    calls: tuple[CallEvent, ...]
    attentions: tuple[nn.Module, ...]
    pools: frozenset[int] = frozenset()

    @property
    def silent(self) -> tuple[nn.Module, ...]:
        """The innermost attention modules that ran beside the interface: neither they nor their parts called it."""
        callers = [call.module for call in self.calls]
        within = {id(part) for caller in callers for part in caller.modules()}
        calling = {id(caller) for caller in callers}
        left = [
            each
            for each in self.attentions
            if id(each) not in within and not any(id(part) in calling for part in each.modules())
        ]
        outer = {id(each) for each in left for part in list(each.modules())[1:] if any(part is other for other in left)}
        return tuple(each for each in left if id(each) not in outer)

    def before(self, call: CallEvent) -> tuple[LinearEvent, ...]:
        """The linear maps that may have made queries, keys and values of a call.

        Those inside the calling module, each at its last application before the call; if it has none, all since the
        call before.
        """
        inside = {id(part) for part in call.module.modules()}
        earlier = [event for event in self.linears if event.order < call.order]
        own = {id(event.spot.module): event for event in earlier if id(event.spot.module) in inside}
        if own:
            return tuple(sorted(own.values(), key=lambda event: event.order))
        previous = max((other.order for other in self.calls if other.order < call.order), default=-1)
        return tuple(event for event in earlier if event.order > previous)

    def after(self, call: CallEvent) -> tuple[LinearEvent, ...]:
        """The linear maps between a call and the next one."""
        following = min((other.order for other in self.calls if other.order > call.order), default=None)
        return tuple(
            event
            for event in self.linears
            if event.order > call.order and (following is None or event.order < following)
        )

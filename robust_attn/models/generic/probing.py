"""A pass on inputs that we choose: which rows make queries, keys and values, and what positions do to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from robust_attn.models.generic.events import CallEvent, LinearEvent, NormEvent
from robust_attn.models.generic.match import Rows, matched
from robust_attn.models.generic.norms import NormRows, normed_rows
from robust_attn.models.generic.refusal import LayerRefusedError, Reason
from robust_attn.models.generic.turning import Turning, turning_of
from robust_attn.models.generic.watching import Watch

Replacement = Mapping[tuple[int, int], Tensor]
"""What a linear map is given in place of its input, by the module's id and the number of its call."""
KEPT = 32
"""Linear maps that are remembered from before a call: those that feed it come last."""


@dataclass(frozen=True, eq=False)
class Probed:
    """The rows that make queries, keys and values of a call, norms of the former, and the turning by position."""

    query: Rows
    key: Rows
    value: Rows
    turning: Turning | None
    query_norm: NormRows | None = None
    key_norm: NormRows | None = None


class Probe(Watch):
    """Replaces chosen inputs, looks at every call when it is made, and forgets its numbers: `probed` has what it saw.

    Attention returns zeros, because what comes after it is replaced too.
    """

    def __init__(self, implementation: str | None, replaced: Replacement, *, by_itself: bool = False) -> None:
        super().__init__(implementation, by_itself=by_itself)
        self.replaced = replaced
        self.probed: list[Probed | LayerRefusedError] = []

    def called(self, call: CallEvent) -> None:
        """Looks at a call."""
        try:
            inside = {id(part) for part in call.module.modules()}
            norms = tuple(event for event in self.norms if id(event.module) in inside)
            self._refuse_windows(call)
            self.probed.append(probed_call(call, self.log.before(call), norms))
        except LayerRefusedError as error:
            self.probed.append(error)
        self.calls, self.linears, self.norms = [call], self.linears[-KEPT:], []

    def _refuse_windows(self, call: CallEvent) -> None:
        """Tokens of a sample that are attended to in several parts have no vector of their own in the sample."""
        count = next((len(chosen) for chosen in self.replaced.values()), len(call.query))
        if len(call.query) != count:
            raise LayerRefusedError(Reason.SHAPE, f"{len(call.query)} windows of {count} samples")

    def result(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float) -> Tensor:  # noqa: ARG002
        """Zeros of the right shape."""
        return value.new_zeros(query.shape[0], query.shape[2], query.shape[1], value.shape[-1])

    def chosen_input(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The chosen vector of every sample at all of its tokens, where one was chosen."""
        chosen = self.replaced.get((id(module), self.counts.get(id(module), 0)))
        return None if chosen is None or not args else (fitted(chosen, args[0]), *args[1:])

    def linear_ran(self, module: nn.Module, args: tuple[Any, ...], made: Any) -> None:
        """Writes down only maps that may feed a call."""
        if (id(module), self.counts.get(id(module), 0)) in self.replaced:
            super().linear_ran(module, args, made)
        else:
            self.counts[id(module)] = self.counts.get(id(module), 0) + 1


def fitted(chosen: Tensor, given: Tensor) -> Tensor:
    """One vector per sample at every token of the sample, in the shape [samples, tokens, width] of what was given."""
    if given.ndim != 3 or given.shape[0] != chosen.shape[0] or given.shape[-1] != chosen.shape[-1]:
        return given
    return chosen.to(given)[:, None, :].expand(given.shape).contiguous()


def probed_call(call: CallEvent, before: tuple[LinearEvent, ...], norms: tuple[NormEvent, ...] = ()) -> Probed:
    """What the numbers of one call show, refused by its reason."""
    refuse_other_keys(call)
    if not before:
        raise LayerRefusedError(Reason.NOT_AFFINE, "no linear map was seen before it")
    events = [event for event in before if event.made.ndim == 3 and len(event.made) == len(call.query)]
    if not events:
        raise LayerRefusedError(Reason.SHAPE, ", ".join(str(tuple(event.given.shape)) for event in before[:1]))
    at, query, key = _matched_pair(call, events, norms)
    value = matched(call.value[:, :, at], events, at)
    if value is None:
        raise LayerRefusedError(Reason.VALUES, _norm_inside(call.module))
    turned = turning_of(query.turned, key.turned, at)
    return Probed(query.rows, key.rows, value, turned, query.norm, key.norm)


@dataclass(frozen=True, eq=False)
class _Side:
    """Queries or keys: their rows, their norm, and the vectors that positions turn."""

    rows: Rows
    norm: NormRows | None
    turned: Tensor


def _side(heads: Tensor, events: list[LinearEvent], norms: tuple[NormEvent, ...], at: int) -> _Side | None:
    """Head vectors as rows of linear maps at a position, with a norm behind them if there is one."""
    rows = matched(heads[:, :, at], events, at)
    if rows is not None:
        return _Side(rows, None, heads)
    found = normed_rows(heads, norms, events, at)
    return None if found is None else _Side(found.rows, found.norm, found.raw if found.norm.late else heads)


def refuse_other_keys(call: CallEvent) -> None:
    """Another number of keys than of queries: those of other tokens, of all by one query, or of tokens put together."""
    keys = call.key.shape[-2]
    if keys == call.length:
        return
    given = [each for each in call.handed if each.is_floating_point() and each.ndim > 2]
    inside = bool(given) and keys < call.length and not any(each.shape[-2] == keys for each in given)
    reason = Reason.POOL if call.length == 1 else Reason.REDUCED if inside else Reason.CROSS
    raise LayerRefusedError(reason, f"{call.length} queries, {keys} keys")


def _matched_pair(call: CallEvent, events: list[LinearEvent], norms: tuple[NormEvent, ...]) -> tuple[int, _Side, _Side]:
    """A position at which queries and keys are as projected, or normalised, and the rows that make them there."""
    for at in dict.fromkeys((0, 1, 2, 3, call.length // 2, call.length - 1)):
        if at < call.length:
            query = _side(call.query, events, norms, at)
            key = None if query is None else _side(call.key, events, norms, at)
            if query is not None and key is not None:
                return at, query, key
    norm = _norm_inside(call.module)
    raise LayerRefusedError(Reason.NORMALISED, norm) if norm else LayerRefusedError(Reason.NOT_AFFINE)


def _norm_inside(module: nn.Module) -> str:
    kinds = (type(part).__name__ for part in module.modules())
    return next((kind for kind in kinds if "norm" in kind.lower()), "")

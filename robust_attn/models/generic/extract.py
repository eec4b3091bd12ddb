"""All attention layers of a model, from one plain pass, one pass on chosen inputs, and a comparison."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from robust_attn.models.adapter import AttachedLayer
from robust_attn.models.generic.as_found import evaluating, in_float64
from robust_attn.models.generic.events import CallEvent, Log
from robust_attn.models.generic.layer import Found, found_layer, frequency_buffers
from robust_attn.models.generic.precision import KeepFloat64
from robust_attn.models.generic.probing import Probe, Probed, Replacement
from robust_attn.models.generic.refusal import LayerRefusedError, Reason, Refusal
from robust_attn.models.generic.watching import Watch, run_watched
from robust_attn.models.selfcheck import TOLERANCES, relative_differences

Feed = Callable[[int, torch.dtype], Mapping[str, Any]]
"""Arbitrary inputs of that many samples, by the names that the model knows them under."""
SAMPLES, PROBES, MOST_PROBES = 2, 8, 64
NOTHING = Refusal("", Reason.NO_ATTENTION, str(Reason.NO_ATTENTION))
OTHERS = frozenset({Reason.CROSS, Reason.POOL})
"""What is attention, but no self-attention."""
ROUNDED = frozenset({Reason.NOT_AFFINE, Reason.NORMALISED, Reason.VALUES, Reason.ROTATION, Reason.DIFFERS, Reason.BIAS})
"""What rounding to float32 inside may look like."""


@dataclass(frozen=True, eq=False)
class Extraction:
    """The layers of a model in order, those that could not be taken out, and how exactly the former were found.

    `differences` are relative to the model's own forward pass in float64; with `rounds`, to that pass without the
    rounding to float32 that this model has inside. `tokens` is how many the first layer was given.
    """

    found: tuple[Found, ...]
    refused: tuple[Refusal, ...]
    differences: tuple[float, ...]
    rounds: bool
    tokens: int

    def attached(self) -> tuple[AttachedLayer, ...]:
        """The layers with the weights that the model has now, in its own precision."""
        return tuple(each.attached() for each in self.found)

    @property
    def whole(self) -> bool:
        """Whether every layer of self-attention was taken out."""
        return bool(self.found) and all(each.reason in OTHERS for each in self.refused)


def extract(module: nn.Module, feed: Feed) -> Extraction:
    """Watches the model on inputs of `feed` and takes its attention layers out. The module is left as it was found."""
    with torch.random.fork_rng(devices=[]), evaluating(module), in_float64(module):
        plain = _attempt(module, feed, exactly=False)
        if not any(each.reason in ROUNDED for each in plain.refused):
            return plain
        exact = _attempt(module, feed, exactly=True)
        return exact if len(exact.found) > len(plain.found) or not plain.found else plain


def _attempt(module: nn.Module, feed: Feed, *, exactly: bool) -> Extraction:
    with ExitStack() as stack:
        if exactly:
            stack.enter_context(KeepFloat64())
        implementation = getattr(getattr(module, "config", None), "_attn_implementation", None)
        log = _logged(module, feed, implementation)
        if not log.calls:
            return Extraction((), _beside(module, log) or (NOTHING,), (), exactly, 0)
        found, refused = _layers(module, log, _probed(module, feed, implementation, log))
        kept, more, differences = _compared(module, feed, found)
        beside = _beside(module, log)
        return Extraction(kept, (*refused, *more, *beside), differences, exactly, log.calls[0].length)


def _logged(module: nn.Module, feed: Feed, implementation: str | None) -> Log:
    given = feed(SAMPLES, torch.float64)
    for by_itself in (False, True):
        watch = Watch(implementation, by_itself=by_itself)
        run_watched(module, lambda: module(**given), watch)
        if not all(call.computed for call in watch.calls):
            break
    return watch.log


def _probed(module: nn.Module, feed: Feed, implementation: str | None, log: Log) -> list[Probed | LayerRefusedError]:
    count = max(_probes(call) for call in log.calls)
    by_itself = all(call.computed for call in log.calls)
    probe = Probe(implementation, _replacements(log, count), by_itself=by_itself)
    given = feed(count, torch.float64)
    run_watched(module, lambda: module(**given), probe)
    return probe.probed


def _probes(call: CallEvent) -> int:
    """How many samples determine a rotation of head vectors: queries and keys of all heads count."""
    vectors = call.query.shape[1] + call.key.shape[1]
    return min(MOST_PROBES, max(PROBES, math.ceil(1.25 * call.query.shape[-1] / vectors)))


def _replacements(log: Log, count: int) -> Replacement:
    """A random vector per sample for every linear map that may feed a call; maps with one input share it."""
    generator = torch.Generator().manual_seed(0)
    chosen: dict[tuple[int, int], Tensor] = {}
    for call in log.calls:
        inputs: list[tuple[Tensor, Tensor]] = []
        for event in log.before(call):
            given = event.given
            drawn = next((z for seen, z in inputs if seen.shape == given.shape and torch.equal(seen, given)), None)
            if drawn is None:
                drawn = torch.randn(count, given.shape[-1], generator=generator, dtype=torch.float64)
                inputs.append((given, drawn))
            chosen[id(event.spot.module), event.spot.call] = drawn
    return chosen


def _layers(
    module: nn.Module, log: Log, probed: list[Probed | LayerRefusedError]
) -> tuple[list[tuple[str, Found]], list[Refusal]]:
    names = {id(part): name for name, part in module.named_modules()}
    frequencies = frequency_buffers(module)
    found: list[tuple[str, Found]] = []
    refused: list[Refusal] = []
    if len(log.calls) != len(probed):
        return [], [Refusal("", Reason.NOT_AFFINE, "the model calls attention another number of times on other inputs")]
    for call, probe in zip(log.calls, probed, strict=True):
        name = names.get(id(call.module), type(call.module).__name__)
        try:
            found.append((name, found_layer(log, call, probe, frequencies)))
        except LayerRefusedError as error:
            refused.append(Refusal(name, error.reason, str(error)))
    return found, refused


def _compared(
    module: nn.Module, feed: Feed, found: list[tuple[str, Found]]
) -> tuple[tuple[Found, ...], list[Refusal], tuple[float, ...]]:
    """The layers that do what the model does, in float64, and how far each is from it."""
    layers = [each.attached() for _, each in found]
    differences = relative_differences(module, layers, feed(SAMPLES, torch.float64))
    kept: list[Found] = []
    close: list[float] = []
    refused: list[Refusal] = []
    for (name, each), difference in zip(found, differences, strict=True):
        if difference <= TOLERANCES[torch.float64]:
            kept.append(each)
            close.append(difference)
        else:
            refused.append(Refusal(name, Reason.DIFFERS, f"{Reason.DIFFERS} by {difference:.0e}"))
    return tuple(kept), refused, tuple(close)


def _beside(module: nn.Module, log: Log) -> tuple[Refusal, ...]:
    """The attention modules that ran and never called the attention function."""
    names = {id(part): name for name, part in module.named_modules()}
    found = []
    for each in log.silent:
        pools = any(id(part) in log.pools for part in each.modules())
        reason = Reason.POOL if pools else Reason.BYPASS
        found.append(Refusal(names.get(id(each), ""), reason, f"{reason}: {type(each).__name__}"))
    return tuple(found)

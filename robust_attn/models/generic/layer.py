"""One call of the attention function, as an AttentionLayer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from robust_attn.attention.extras import PositionBias, Sinks
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Visibility
from robust_attn.attention.rotary import Rotation
from robust_attn.models.adapter import Affine, AttachedLayer, attention_layer
from robust_attn.models.generic.events import CallEvent, LinearEvent, Log
from robust_attn.models.generic.masks import mask_kind, position_bias
from robust_attn.models.generic.match import Rows, affine_of
from robust_attn.models.generic.norms import NormRows
from robust_attn.models.generic.probing import Probed, refuse_other_keys
from robust_attn.models.generic.radius import norm_before, norm_radius
from robust_attn.models.generic.refusal import LayerRefusedError, Reason
from robust_attn.models.generic.turning import rotation_of
from robust_attn.models.hooks import Spot

SINKS = ("s_aux", "sinks", "sink")
BIASES = ("position_bias", "relative_position_bias", "alibi", "attention_bias")


@dataclass(frozen=True, eq=False)
class Found:
    """What a layer is made of, before weights are taken: rows of linear maps, not numbers.

    `longest`: it is known for texts of at most that many tokens, because nobody told its mask.
    """

    query: Rows
    key: Rows
    value: Rows
    output: Spot
    source: Spot
    scale: float
    mask: Visibility
    rotary: Rotation | None
    factors: bool
    norm: nn.Module | None
    query_norm: NormRows | None
    key_norm: NormRows | None
    bias: Tensor | None
    sinks: Tensor | None
    longest: int | None

    def attached(self) -> AttachedLayer:
        """The layer with the model's weights as they are stored now."""
        query = self.query.affine(factors=self.factors)
        value = self.value.affine(factors=self.value.factor != 1.0)
        weights = attention_layer(
            query,
            self.key.affine(factors=self.factors),
            value,
            affine_of(self.output.module),
            heads=self.query.blocks,
            groups=self.key.blocks,
            scale=self.scale,
            mask=self.mask,
            rotary=self.rotary,
            input_radius=None if self.norm is None else norm_radius(self.norm, query.weight.dtype),
        )
        return AttachedLayer(self._with_extras(weights, value), source=self.source, sink=self.output)

    def _with_extras(self, weights: AttentionLayer, value: Affine) -> AttentionLayer:
        """Norms of queries and keys, whose centring the projections do; the bias by positions, and sinks."""
        like, heads = weights.query, self.query.blocks
        found: dict[str, Any] = {}
        for name, norm in (("query", self.query_norm), ("key", self.key_norm)):
            if norm is not None:
                projected = (norm.centre(getattr(weights, field)) for field in (name, f"{name}_bias"))
                found |= dict(
                    zip((name, f"{name}_bias", f"{name}_norm"), (*projected, norm.head_norm(like)), strict=True)
                )
        if self.bias is not None:
            found["position_bias"] = PositionBias(self.bias.expand(heads, -1, -1).to(like))
        if self.sinks is not None:
            still = -value.bias_in_blocks(self.key.blocks).repeat_interleave(heads // self.key.blocks, dim=0)
            found["sinks"] = Sinks(self.sinks.detach().flatten().to(like), still)
        return replace(weights, **found) if found else weights


@dataclass(frozen=True, eq=False)
class _Positions:
    """The scale of the logits, the rotation, the order of head coordinates, and whether rows carry their factors."""

    scale: float
    rotary: Rotation | None
    order: Tensor | None
    factors: bool


def found_layer(log: Log, call: CallEvent, probed: Probed | LayerRefusedError, frequencies: Iterable[Tensor]) -> Found:
    """What a call is made of, by the numbers of a plain pass and of one on chosen inputs; refused by its reason."""
    _refuse_extras(call)
    refuse_other_keys(call)
    mask = mask_kind(call.mask, call.length, call.local)
    added = [call.extras[name] for name in BIASES if isinstance(call.extras.get(name), Tensor)]
    bias = position_bias(call.mask, added, call.length)
    if isinstance(probed, LayerRefusedError):
        unclear = probed.reason in (Reason.NORMALISED, Reason.NOT_AFFINE)
        raise LayerRefusedError(Reason.LATENT) if unclear and _chained(log, call) else probed
    source = _common_input(log, call, (probed.query, probed.key, probed.value))
    output = _output(log, call)
    positions = _positions(probed, call.scaling, frequencies)
    query, key, norms = probed.query, probed.key, [probed.query_norm, probed.key_norm]
    if positions.order is not None:
        query, key = query.reordered(positions.order), key.reordered(positions.order)
        norms = [None if each is None else each.reordered(positions.order) for each in norms]
    return Found(
        query=query,
        key=key,
        value=probed.value,
        output=output.spot,
        source=source.spot,
        scale=positions.scale,
        mask=mask,
        rotary=positions.rotary,
        factors=positions.factors,
        norm=norm_before(log, call, source),
        query_norm=norms[0],
        key_norm=norms[1],
        bias=bias,
        longest=call.length if call.computed else None,
        sinks=next((call.extras[name] for name in SINKS if isinstance(call.extras.get(name), Tensor)), None),
    )


def _refuse_extras(call: CallEvent) -> None:
    if call.extras.get("softcap") is not None:
        raise LayerRefusedError(Reason.SOFTCAP)
    sinks = [call.extras[name] for name in SINKS if isinstance(call.extras.get(name), Tensor)]
    if any(each.numel() != call.query.shape[1] for each in sinks):
        raise LayerRefusedError(Reason.SINKS, f"of shape {tuple(sinks[0].shape)}")


def _common_input(log: Log, call: CallEvent, parts: tuple[Rows, Rows, Rows]) -> LinearEvent:
    """The linear map whose input all maps of queries, keys and values share."""
    events = {id(event.spot.module): event for event in log.before(call)}
    query, key, value = ([events[id(rows.maps[i])] for i in rows.owners.unique().tolist()] for rows in parts)
    source = query[0]
    if all(_same(source.given, other.given) for other in (*query, *key, *value)):
        if source.given.ndim != 3:
            raise LayerRefusedError(Reason.SHAPE, str(tuple(source.given.shape)))
        return source
    made = [event.made for event in log.before(call)]
    norms = [event.made for event in log.norms if id(event.module) in {id(part) for part in call.module.modules()}]
    chained = any(_same(each.given, other) for each in (*query, *key, *value) for other in (*made, *norms))
    if chained:
        raise LayerRefusedError(Reason.LATENT)
    if _same(key[0].given, value[0].given):
        raise LayerRefusedError(Reason.CROSS)
    raise LayerRefusedError(Reason.INPUTS)


def _chained(log: Log, call: CallEvent) -> bool:
    """Whether a linear map of the calling module was given something that the module made itself, another was not."""
    events = log.before(call)
    outside = (events[0].given, *call.handed) if events else ()
    return any(not any(_same(event.given, each) for each in outside) for event in events)


def _same(left: Tensor, right: Tensor) -> bool:
    return left is right or (left.shape == right.shape and torch.equal(left, right))


def _output(log: Log, call: CallEvent) -> LinearEvent:
    """The first linear map that is given exactly what the call returned."""
    wanted = call.made.flatten(-2)
    for event in log.after(call):
        fits = event.given.numel() == wanted.numel() and event.given.shape[-1] == wanted.shape[-1]
        if fits and torch.equal(event.given.reshape(wanted.shape), wanted):
            if event.made.ndim != 3:
                raise LayerRefusedError(Reason.SHAPE, f"output of shape {tuple(event.made.shape)}")
            return event
    raise LayerRefusedError(Reason.OUTPUT)


def _positions(probed: Probed, scaling: float, frequencies: Iterable[Tensor]) -> _Positions:
    """What positions do to logits. A factor that all rows share is one of the scale, or of the rotation."""
    query, key, turning = probed.query.factor, probed.key.factor, probed.turning
    if any(norm is not None and own != 1.0 for norm, own in ((probed.query_norm, query), (probed.key_norm, key))):
        query = None  # a factor in front of a norm is no factor of the scale
    if turning is None:
        shared = None if query is None or key is None else query * key
        return _Positions(scaling * (1.0 if shared is None else shared), None, None, factors=shared is None)
    half = turning.cosine.shape[1]
    own = query if query is not None and query == key else 1.0
    rotary, inside = rotation_of(turning, own, [each for each in frequencies if len(each) <= half])
    order = None if torch.equal(turning.order, torch.arange(2 * half)) else turning.order
    if query is None or key is None:
        return _Positions(scaling, rotary, order, factors=True)
    return _Positions(scaling * (query / inside) * (key / inside), rotary, order, factors=False)


def frequency_buffers(module: nn.Module) -> list[Tensor]:
    """Tensors of the model that may be rotary frequencies: each by itself, no more than one axis."""
    found = [buffer for _, buffer in module.named_buffers() if buffer.ndim == 1 and buffer.is_floating_point()]
    return [each for each in found if 0 < len(each) <= 512]

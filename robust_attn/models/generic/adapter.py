"""The adapter for every model: it calls transformers' attention interface, or computes plain attention by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from robust_attn.attention.rotary import RotaryTable
from robust_attn.models.adapter import Adapter, TakenOut
from robust_attn.models.generic.extract import Extraction, extract
from robust_attn.models.quiet import quiet_transformers, reason
from robust_attn.models.reading import CHECK_TOKENS, Reading, body_of, reading_of
from robust_attn.types import UserError

TABLE_TOKENS = 128
"""Positions that a rotary table is taken at where the model has no frequencies to make further ones from."""


@dataclass(frozen=True)
class GenericAdapter(Adapter):
    """Watches the model run; nothing about any one architecture is written down here."""

    def taken_out(self, model: nn.Module) -> TakenOut:
        """The layers that the model's own forward pass confirms to 1e-10 in float64, and why others are left out."""
        reading, body = reading_of(model), body_of(model)
        with quiet_transformers():
            extraction = _extracted(body, reading, CHECK_TOKENS)
            if reading.image_shape is None and _table(extraction) is not None:
                extraction = _extracted(body, reading, TABLE_TOKENS)
        return TakenOut(extraction.attached(), _limited(reading, extraction), extraction.rounds, _note(extraction))


def _extracted(body: nn.Module, reading: Reading, tokens: int) -> Extraction:
    name, device = str(getattr(body, "main_input_name", "input_ids")), next(body.parameters()).device

    def feed(samples: int, dtype: torch.dtype) -> Mapping[str, Tensor]:
        return {name: reading.batch(samples, dtype, tokens=tokens).to(device)}

    try:
        return extract(body, feed)
    except UserError:
        raise
    except Exception as error:
        kind = getattr(getattr(body, "config", None), "model_type", type(body).__name__)
        raise UserError(f"a model of type {kind} cannot be run on arbitrary inputs: {reason(error)}") from error


def _table(extraction: Extraction) -> int | None:
    """The length up to which all layers are known: of the shortest table, and of a mask that was only seen."""
    tables = [each.rotary.length for each in extraction.found if isinstance(each.rotary, RotaryTable)]
    tables += [each.bias.shape[-1] for each in extraction.found if each.bias is not None]
    tables += [each.longest for each in extraction.found if each.longest is not None]
    return min(tables, default=None)


def _limited(reading: Reading, extraction: Extraction) -> Reading:
    """An image always has as many tokens as were seen; a rotary table ends."""
    if reading.image_shape is not None:
        return replace(reading, max_tokens=extraction.tokens)
    limits = [each for each in (reading.max_tokens, _table(extraction)) if each is not None]
    return replace(reading, max_tokens=min(limits, default=None))


def _note(extraction: Extraction) -> str | None:
    """What was left out and why, what is known of short texts only, and rounding inside."""
    said = []
    if extraction.refused:
        reasons = ", ".join(dict.fromkeys(each.said for each in extraction.refused))
        of = len(extraction.found) + len(extraction.refused)
        said.append(f"{len(extraction.refused)} of {of} attention layers are left out ({reasons})")
    seen = [each.longest for each in extraction.found if each.longest is not None]
    if seen:
        said.append(f"it computes attention by itself, so its layers are known for texts of up to {min(seen)} tokens")
    if extraction.rounds:
        said.append("the model rounds to float32 inside, which its layers here do not")
    return "; ".join(said) or None

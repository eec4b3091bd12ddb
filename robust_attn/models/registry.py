"""Which adapter serves which architecture."""

from __future__ import annotations

from collections.abc import Mapping

from robust_attn.models.adapter import Adapter
from robust_attn.models.generic.adapter import GenericAdapter
from robust_attn.models.toy import ToyAdapter, ToyConfig

ADAPTERS: Mapping[str, Adapter] = {ToyConfig.model_type: ToyAdapter()}
"""Adapters written for one architecture, by the `model_type` of its configuration: those that need one."""
_GENERIC = GenericAdapter()


def adapter_for(model_type: str) -> Adapter:
    """The adapter of an architecture: its own, or the one for all that call transformers' attention interface."""
    return ADAPTERS.get(model_type, _GENERIC)

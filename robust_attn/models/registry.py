"""Which adapter serves which architecture."""

from __future__ import annotations

from collections.abc import Mapping

from robust_attn.models.adapter import Adapter
from robust_attn.models.bert import BertAdapter
from robust_attn.models.distilbert import DistilBertAdapter
from robust_attn.models.gpt2 import Gpt2Adapter
from robust_attn.models.llama import LlamaAdapter
from robust_attn.models.roberta import RobertaAdapter
from robust_attn.models.toy import ToyAdapter
from robust_attn.models.vit import VitAdapter
from robust_attn.types import UserError

_ALL: tuple[Adapter, ...] = (
    BertAdapter(),
    RobertaAdapter(),
    DistilBertAdapter(),
    Gpt2Adapter(),
    VitAdapter(),
    LlamaAdapter(),
    ToyAdapter(),
)
ADAPTERS: Mapping[str, Adapter] = {adapter.architecture: adapter for adapter in _ALL}


def adapter_for(model_type: str) -> Adapter:
    """The adapter of an architecture, by the `model_type` of a model's configuration."""
    if model_type not in ADAPTERS:
        raise UserError(f"no adapter for model type {model_type!r}; supported: {', '.join(sorted(ADAPTERS))}")
    return ADAPTERS[model_type]

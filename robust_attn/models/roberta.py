"""RoBERTa: BERT's layers; positions are counted from the padding index on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from robust_attn.models.adapter import Adapter, AttachedLayer
from robust_attn.models.bert import bert_layers


@dataclass(frozen=True)
class RobertaAdapter(Adapter):
    """Layers exactly as in BERT."""

    architecture: ClassVar[str] = "roberta"
    construction: ClassVar[Mapping[str, Any]] = {"add_pooling_layer": False}

    def layers(self, model: nn.Module) -> tuple[AttachedLayer, ...]:
        """One layer per block."""
        return bert_layers(model)

    def max_tokens(self, config: Any) -> int | None:
        """The first token has position `pad_token_id + 1`, so that many learned positions are never used."""
        return int(config.max_position_embeddings) - int(config.pad_token_id) - 1

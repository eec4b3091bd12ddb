"""BERT: post-norm encoder; with `is_decoder` the same layers are causal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from robust_attn.attention.mask import Mask
from robust_attn.models.adapter import Adapter, Affine, AttachedLayer, attention_layer
from robust_attn.models.normalization import layer_norm_radius


@dataclass(frozen=True)
class BertAdapter(Adapter):
    """The layer runs from the input of `attention.self` to the output of `attention.output.dense`."""

    architecture: ClassVar[str] = "bert"
    construction: ClassVar[Mapping[str, Any]] = {"add_pooling_layer": False}

    def layers(self, model: nn.Module) -> tuple[AttachedLayer, ...]:
        """One layer per block, none of them cross-attention."""
        return bert_layers(model)

    def max_tokens(self, config: Any) -> int | None:
        """Learned positions."""
        return int(config.max_position_embeddings)


def bert_layers(model: Any) -> tuple[AttachedLayer, ...]:
    """The attention layers of any model built like BERT; the norm that ends a block feeds the next one."""
    blocks = list(model.encoder.layer)
    norms = [model.embeddings.LayerNorm, *(block.output.LayerNorm for block in blocks)]
    return tuple(_attached(block.attention, norm) for block, norm in zip(blocks, norms, strict=False))


def _attached(attention: Any, norm: nn.LayerNorm) -> AttachedLayer:
    core = attention.self
    weights = attention_layer(
        Affine.of(core.query),
        Affine.of(core.key),
        Affine.of(core.value),
        Affine.of(attention.output.dense),
        heads=core.num_attention_heads,
        groups=core.num_attention_heads,
        scale=core.scaling,
        mask=Mask.CAUSAL if core.is_causal else Mask.NONE,
        input_radius=layer_norm_radius(norm.weight, norm.bias),
    )
    return AttachedLayer(weights, source=core, sink=attention.output.dense)

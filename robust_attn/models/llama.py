"""Llama: pre-norm decoder, rotary positions, key/value heads shared in groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from robust_attn.attention.mask import Mask
from robust_attn.attention.rotary import Rotary
from robust_attn.models.adapter import Adapter, Affine, AttachedLayer, attention_layer
from robust_attn.models.normalization import rms_norm_radius
from robust_attn.types import UserError


@dataclass(frozen=True)
class LlamaAdapter(Adapter):
    """The layer is the module `self_attn`, whose last step is `o_proj`; always causal."""

    architecture: ClassVar[str] = "llama"
    construction: ClassVar[Mapping[str, Any]] = {}

    def layers(self, model: nn.Module) -> tuple[AttachedLayer, ...]:
        """One layer per block, fed by its own `input_layernorm`; all share one rotary embedding."""
        whole: Any = model
        rotary = _rotary(whole.rotary_emb)
        return tuple(_attached(block.self_attn, block.input_layernorm, rotary) for block in whole.layers)

    def max_tokens(self, config: Any) -> int | None:
        """Rotary positions know no table; this is how far the model was made for."""
        return int(config.max_position_embeddings)


def _rotary(embedding: Any) -> Rotary:
    """Frequencies that change with the length of the input (dynamic and longrope scaling) are refused."""
    if "dynamic" in embedding.rope_type or embedding.rope_type == "longrope":
        raise UserError(
            f"rotary embeddings of type {embedding.rope_type} change with the length of the text; "
            "this model cannot be taken apart into fixed attention layers"
        )
    return Rotary(embedding.inv_freq.detach(), float(embedding.attention_scaling))


def _attached(attention: Any, norm: Any, rotary: Rotary) -> AttachedLayer:
    config = attention.config
    weights = attention_layer(
        Affine.of(attention.q_proj),
        Affine.of(attention.k_proj),
        Affine.of(attention.v_proj),
        Affine.of(attention.o_proj),
        heads=config.num_attention_heads,
        groups=config.num_key_value_heads,
        scale=attention.scaling,
        mask=Mask.CAUSAL,
        rotary=rotary,
        input_radius=rms_norm_radius(norm.weight),
    )
    return AttachedLayer(weights, source=attention, sink=attention.o_proj)

"""ViT: pre-norm encoder of image patches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from robust_attn.models.adapter import Adapter, Affine, AttachedLayer, attention_layer
from robust_attn.models.normalization import layer_norm_radius


@dataclass(frozen=True)
class VitAdapter(Adapter):
    """The layer is the module `attention`, whose last step is `o_proj`."""

    architecture: ClassVar[str] = "vit"
    construction: ClassVar[Mapping[str, Any]] = {"add_pooling_layer": False}

    def layers(self, model: nn.Module) -> tuple[AttachedLayer, ...]:
        """One layer per block, fed by its own `layernorm_before`."""
        whole: Any = model
        return tuple(_attached(block.attention, block.layernorm_before) for block in whole.layers)

    def max_tokens(self, config: Any) -> int | None:
        """One token per patch and one for the class: an image always has exactly this many."""
        return (int(config.image_size) // int(config.patch_size)) ** 2 + 1


def _attached(attention: Any, norm: nn.LayerNorm) -> AttachedLayer:
    weights = attention_layer(
        Affine.of(attention.q_proj),
        Affine.of(attention.k_proj),
        Affine.of(attention.v_proj),
        Affine.of(attention.o_proj),
        heads=attention.num_attention_heads,
        groups=attention.num_attention_heads,
        scale=attention.scaling,
        input_radius=layer_norm_radius(norm.weight, norm.bias),
    )
    return AttachedLayer(weights, source=attention, sink=attention.o_proj)

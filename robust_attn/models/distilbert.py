"""DistilBERT: BERT's post-norm encoder under other names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from robust_attn.models.adapter import Adapter, Affine, AttachedLayer, attention_layer
from robust_attn.models.normalization import layer_norm_radius


@dataclass(frozen=True)
class DistilBertAdapter(Adapter):
    """The layer is the module `attention`, whose last step is `out_lin`."""

    architecture: ClassVar[str] = "distilbert"
    construction: ClassVar[Mapping[str, Any]] = {}

    def layers(self, model: nn.Module) -> tuple[AttachedLayer, ...]:
        """One layer per block; the norm that ends a block feeds the next one."""
        whole: Any = model
        blocks = list(whole.transformer.layer)
        norms = [whole.embeddings.LayerNorm, *(block.output_layer_norm for block in blocks)]
        return tuple(_attached(block.attention, norm) for block, norm in zip(blocks, norms, strict=False))

    def max_tokens(self, config: Any) -> int | None:
        """Learned positions."""
        return int(config.max_position_embeddings)


def _attached(attention: Any, norm: nn.LayerNorm) -> AttachedLayer:
    weights = attention_layer(
        Affine.of(attention.q_lin),
        Affine.of(attention.k_lin),
        Affine.of(attention.v_lin),
        Affine.of(attention.out_lin),
        heads=attention.n_heads,
        groups=attention.n_heads,
        scale=attention.scaling,
        input_radius=layer_norm_radius(norm.weight, norm.bias),
    )
    return AttachedLayer(weights, source=attention, sink=attention.out_lin)

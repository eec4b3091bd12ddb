"""GPT-2: pre-norm decoder with queries, keys and values in one Conv1D."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from robust_attn.attention.mask import Mask
from robust_attn.models.adapter import Adapter, Affine, AttachedLayer, attention_layer
from robust_attn.models.normalization import layer_norm_radius


@dataclass(frozen=True)
class Gpt2Adapter(Adapter):
    """The layer runs from the input of `attn` to the output of `attn.c_proj`; always causal."""

    architecture: ClassVar[str] = "gpt2"
    construction: ClassVar[Mapping[str, Any]] = {}

    def layers(self, model: nn.Module) -> tuple[AttachedLayer, ...]:
        """One layer per block, fed by its own `ln_1`."""
        whole: Any = model
        return tuple(_attached(block.attn, block.ln_1) for block in whole.h)

    def max_tokens(self, config: Any) -> int | None:
        """Learned positions."""
        return int(config.n_positions)


def _attached(attention: Any, norm: nn.LayerNorm) -> AttachedLayer:
    query, key, value = _thirds(attention.c_attn)
    weights = attention_layer(
        query,
        key,
        value,
        Affine(attention.c_proj.weight.detach().T, attention.c_proj.bias.detach()),
        heads=attention.num_heads,
        groups=attention.num_heads,
        # Already honours scale_attn_weights and scale_attn_by_inverse_layer_idx.
        scale=attention.scaling,
        mask=Mask.CAUSAL,
        input_radius=layer_norm_radius(norm.weight, norm.bias),
    )
    return AttachedLayer(weights, source=attention, sink=attention.c_proj)


def _thirds(conv: Any) -> tuple[Affine, Affine, Affine]:
    """Conv1D stores x @ weight + bias, so outputs are columns: the first third queries, then keys, then values."""
    weights = conv.weight.detach().chunk(3, dim=1)
    biases = conv.bias.detach().chunk(3)
    query, key, value = (Affine(weight.T, bias) for weight, bias in zip(weights, biases, strict=True))
    return query, key, value

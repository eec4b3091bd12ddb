"""Small random models of transformers, every parameter away from its initial value."""

from __future__ import annotations

from typing import Any

import torch
import transformers

from robust_attn.models.build import seeded
from robust_attn.models.quiet import quiet_transformers

library: Any = transformers
SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
TEXT = {**SIZES, "vocab_size": 99, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SHARED = {**TEXT, "num_attention_heads": 4, "num_key_value_heads": 2}
IMAGES = {**SIZES, "image_size": 8, "patch_size": 4, "num_channels": 1}
ENDS = {"cls_token_id": 1, "sep_token_id": 2}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "BertForSequenceClassification": ("BertConfig", TEXT),
    "GPT2LMHeadModel": ("GPT2Config", {"n_embd": 24, "n_layer": 2, "n_head": 2, "vocab_size": 99, **ENDS}),
    "ViTForImageClassification": ("ViTConfig", IMAGES),
    "MistralForCausalLM": ("MistralConfig", {**SHARED, "sliding_window": 5}),
    "Qwen2ForCausalLM": ("Qwen2Config", SHARED),
    "Qwen3ForCausalLM": ("Qwen3Config", {**SHARED, "head_dim": 6}),
    "ModernBertForMaskedLM": ("ModernBertConfig", {**TEXT, **ENDS, "local_attention": 6}),
    "DeiTForImageClassification": ("DeiTConfig", IMAGES),
    "CLIPVisionModel": ("CLIPVisionConfig", IMAGES),
    "ElectraForSequenceClassification": ("ElectraConfig", {**TEXT, "embedding_size": 24}),
}
"""Class and configuration of every model that must work from a folder and from memory."""


def small(kind: str, seed: int = 0, **changes: Any) -> Any:
    """A model of `KINDS`, in float32 and training mode, as a user may have it."""
    config, sizes = KINDS[kind]
    return drawn(getattr(library, kind), getattr(library, config)(**{**sizes, **changes}), seed)


def drawn(made: Any, config: Any, seed: int = 0) -> Any:
    """A model of the class with all parameters moved by random numbers, so that biases and norms matter."""
    with seeded(seed), quiet_transformers():
        module = made(config)
        for parameter in module.parameters():
            parameter.data += 0.2 * torch.randn(parameter.shape)
    return module.train()

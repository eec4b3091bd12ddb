"""Tiny random models of every family that has a network, with every kind of head."""

from __future__ import annotations

from functools import cache

import torch
import transformers
from torch import Tensor, nn

from robust_attn.models import wrap
from robust_attn.models.build import seeded
from robust_attn.models.quiet import quiet_transformers
from robust_attn.through.classifier import Classifier, classifier_of
from tests.cases import generator

BERT = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12, "vocab_size": 40,
        "max_position_embeddings": 40, "num_labels": 3}  # fmt: skip
LLAMA = BERT | {"num_key_value_heads": 1, "head_dim": 6}
DISTILBERT = {"dim": 8, "n_layers": 2, "n_heads": 2, "hidden_dim": 12, "vocab_size": 40, "num_labels": 3}
GPT2 = {"n_embd": 8, "n_layer": 2, "n_head": 2, "vocab_size": 40, "n_positions": 40, "num_labels": 3}
VIT = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12, "image_size": 4,
       "patch_size": 2, "num_channels": 1, "num_labels": 3}  # fmt: skip
MODELS = {
    "BertForSequenceClassification": BERT,
    "RobertaForSequenceClassification": BERT | {"pad_token_id": 1},
    "ElectraForSequenceClassification": BERT | {"embedding_size": 6},
    "DistilBertForSequenceClassification": DISTILBERT,
    "GPT2ForSequenceClassification": GPT2,
    "GPT2LMHeadModel": GPT2,
    "LlamaForCausalLM": LLAMA,
    "LlamaForSequenceClassification": LLAMA,
    "MistralForCausalLM": LLAMA | {"sliding_window": 4},
    "Qwen2ForCausalLM": LLAMA,
    "ViTForImageClassification": VIT,
}
IMAGES = ("ViTForImageClassification",)
TEXTS = tuple(name for name in MODELS if name not in IMAGES)


def built(name: str, dtype: torch.dtype = torch.float64, **sizes: object) -> nn.Module:
    """A model of transformers by the name of its class; biases, norms and small weights are drawn as well."""
    made = getattr(transformers, name)
    with seeded(0), quiet_transformers():
        module = made(made.config_class(**(MODELS[name] | sizes)))
        for parameter in module.parameters():
            parameter.data += 0.2 * torch.randn_like(parameter)
    module.config.use_cache = False
    return module.to(dtype).eval().requires_grad_(False)


@cache
def reader(name: str, dtype: torch.dtype = torch.float64) -> Classifier:
    return classifier_of(wrap(built(name, dtype)))


def batch(name: str, samples: int = 2, tokens: int = 7) -> Tensor:
    if name in IMAGES:
        return torch.rand(samples, 1, 4, 4, generator=generator(2), dtype=torch.float64)
    return torch.randint(3, 40, (samples, tokens), generator=generator(3))

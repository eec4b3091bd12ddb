"""What stands on top of a model: a head that gives classes, one that gives the next token, or nothing of the kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

import torch
from torch import nn


class Head(Enum):
    """What the logits of a model are about, with the name of transformers' list of such models."""

    SEQUENCE = "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES"
    IMAGE = "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES"
    NEXT_TOKEN = "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"

    @property
    def classes(self) -> frozenset[str]:
        """Names of the classes of transformers that have such a head."""
        from transformers.models.auto import modeling_auto

        listed: Mapping[str, str | Iterable[str]] = getattr(modeling_auto, self.value)
        return frozenset(name for names in listed.values() for name in ([names] if isinstance(names, str) else names))


def head_named(classes: Iterable[str]) -> Head | None:
    """The head of the first class that has one, by the names of classes."""
    known = {head: head.classes for head in Head}
    return next((head for name in classes for head in Head if name in known[head]), None)


def head_on(module: nn.Module) -> Head | None:
    """The head of a module; a class derived from one of transformers has that one's head."""
    return head_named(each.__name__ for each in type(module).__mro__)


def with_next_token(body: nn.Module) -> nn.Module:
    """The language model around its body, sharing the body's weights.

    Where the head is not tied to the embeddings it is drawn from torch's generator, after all weights of the body.
    """
    import transformers

    config: Any = body.config
    auto: Any = transformers.AutoModelForCausalLM
    with torch.device("meta"):
        whole = auto.from_config(config, dtype=torch.float32)
    setattr(whole, whole.base_model_prefix, body)
    whole.config = config
    if config.tie_word_embeddings:
        whole.set_output_embeddings(_reading_back(whole.get_input_embeddings()))
    else:
        head = whole.get_output_embeddings().to_empty(device="cpu")
        nn.init.normal_(head.weight, std=config.initializer_range)
    module: nn.Module = whole
    return module


def _reading_back(table: nn.Embedding) -> nn.Linear:
    """The logits of a tied head: products with the embeddings of all tokens."""
    linear = nn.Linear(table.embedding_dim, table.num_embeddings, bias=False, device="meta")
    linear.weight = table.weight
    return linear

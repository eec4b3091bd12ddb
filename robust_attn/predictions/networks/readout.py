"""What happens after the last layer: which tokens a head reads, and the head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from robust_attn.predictions.scalar_functions import Gelu, Relu, ScalarFunction, Tanh
from robust_attn.predictions.steps import Weights

Parts = tuple[Weights | ScalarFunction, ...]


@dataclass(frozen=True, eq=False)
class Readout:
    """Weights [n] of the tokens, and the projections and activations that read their weighted sum."""

    pooling: Tensor
    head: Parts

    @classmethod
    def of_mean(cls, length: int, head: Parts) -> Readout:
        """All tokens alike."""
        return cls(torch.full((length,), 1 / length, dtype=torch.float64), head)

    @classmethod
    def of_token(cls, index: int, length: int, head: Parts) -> Readout:
        """One token alone; -1 is the last."""
        pooling = torch.zeros(length, dtype=torch.float64)
        pooling[index] = 1
        return cls(pooling, head)


def pooler_and_classifier(module: Any, length: int) -> Readout:
    """BERT: the first token through a dense layer with tanh, and a projection to the classes."""
    pooler = Weights.of(module.base_model.pooler.dense)
    return Readout.of_token(0, length, (pooler, Tanh(), Weights.of(module.classifier)))


def dense_with_tanh(module: Any, length: int) -> Readout:
    """RoBERTa: the same from within the head."""
    head = module.classifier
    return Readout.of_token(0, length, (Weights.of(head.dense), Tanh(), Weights.of(head.out_proj)))


def dense_with_gelu(module: Any, length: int) -> Readout:
    """ELECTRA: GELU in place of tanh."""
    head = module.classifier
    return Readout.of_token(0, length, (Weights.of(head.dense), Gelu(), Weights.of(head.out_proj)))


def dense_with_relu(module: Any, length: int) -> Readout:
    """DistilBERT: ReLU in place of tanh."""
    return Readout.of_token(0, length, (Weights.of(module.pre_classifier), Relu(), Weights.of(module.classifier)))


def class_token(module: Any, length: int) -> Readout:
    """ViT: a projection of the class token, the first of the `length` tokens."""
    return Readout.of_token(0, length, (Weights.of(module.classifier),))


def last_token(module: Any, length: int) -> Readout:
    """Decoders: a projection of the last token, to classes where there is a `score`, else to the vocabulary."""
    head = getattr(module, "score", None)
    return Readout.of_token(-1, length, (Weights.of(module.lm_head if head is None else head),))

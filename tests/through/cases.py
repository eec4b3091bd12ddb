"""Tiny random classifiers with the real architectures around them."""

from functools import cache

import torch
from torch import nn

from robust_attn.models import load_model
from robust_attn.models.load import checked_model
from robust_attn.through.classifier import ImageClassifier, MeanClassifier
from robust_attn.through.victim import Victim
from tests.cases import generator

BERT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 50}
VIT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


def random_head(width: int, classes: int, seed: int) -> nn.Module:
    head = nn.Linear(width, classes, dtype=torch.float64).requires_grad_(False)
    head.weight.copy_(torch.randn(classes, width, generator=generator(seed), dtype=torch.float64))
    head.bias.zero_()
    return head


@cache
def text_classifier() -> MeanClassifier:
    """BERT whose queries and keys are large, so that attention is not flat."""
    model = load_model("bert", "random", sizes=BERT)
    for name, parameter in model.module.named_parameters():
        if name.endswith(("query.weight", "key.weight", "value.weight")):
            parameter.mul_(20)
        if name.endswith("word_embeddings.weight"):
            parameter.mul_(10)
    checked = checked_model(model.name, model.origin, model.module, tokenizer=None)
    return MeanClassifier(checked, random_head(16, 3, 0))


@cache
def image_classifier() -> ImageClassifier:
    """ViT with the random body of that name, and a head."""
    from transformers import ViTForImageClassification

    body = load_model("vit", "random", sizes=VIT)
    body.module.config.num_labels = 4
    whole = ViTForImageClassification(body.module.config).double().eval().requires_grad_(False)
    whole.vit, whole.classifier = body.module, random_head(16, 4, 1)
    return ImageClassifier(checked_model(body.name, body.origin, whole, tokenizer=None))


def ids(samples: int = 2, tokens: int = 5) -> torch.Tensor:
    """The first samples are the same however many are asked for."""
    return torch.randint(0, 50, (4, tokens), generator=generator(3))[:samples]


def pixels(samples: int = 2) -> torch.Tensor:
    return 1.6 * torch.rand(4, 1, 8, 8, generator=generator(4))[:samples] - 0.8


def text_victim(sample: int = 0) -> Victim:
    reader = text_classifier()
    return Victim.of(reader, reader.measure(ids()[sample : sample + 1]))


def image_victim() -> Victim:
    reader = image_classifier()
    return Victim.of(reader, reader.measure(pixels()[:1]))

"""Which model is built how, by the `model_type` of its configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from robust_attn.predictions.networks.bert import bert_network, distilbert_network
from robust_attn.predictions.networks.decoders import gpt2_network, llama_network
from robust_attn.predictions.networks.readout import (
    Parts,
    Readout,
    class_token,
    dense_with_gelu,
    dense_with_relu,
    dense_with_tanh,
    last_token,
    pooler_and_classifier,
)
from robust_attn.predictions.networks.vit import vit_network, vit_tokens
from robust_attn.predictions.steps import Network
from robust_attn.types import UserError


@dataclass(frozen=True)
class Family:
    """How bodies and heads of one kind are read; `tokens` says how many tokens an input makes, if not one per row."""

    network: Callable[[Any, int, Readout], Network]
    readout: Callable[[Any, int], Readout]
    tokens: Callable[[Any], int] | None = None


_ROBERTA = Family(bert_network, dense_with_tanh)
_LLAMA = Family(llama_network, last_token)
FAMILIES: Mapping[str, Family] = {
    "bert": Family(bert_network, pooler_and_classifier),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "electra": Family(bert_network, dense_with_gelu),
    "distilbert": Family(distilbert_network, dense_with_relu),
    "gpt2": Family(gpt2_network, last_token),
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "qwen2": _LLAMA,
    "vit": Family(vit_network, class_token, vit_tokens),
}


def whole_network(module: Any, length: int) -> Network:
    """A model of transformers with its own head, for inputs of that many rows."""
    family = _family(module)
    tokens = length if family.tokens is None else family.tokens(module.base_model)
    try:
        return family.network(module.base_model, length, family.readout(module, tokens))
    except AttributeError as error:
        raise UserError(f"no steps for the head of a {type(module).__name__}, which cannot be certified.") from error


def mean_network(body: Any, head: Parts, length: int) -> Network:
    """An encoder, the mean over its tokens, and a head."""
    return _family(body).network(body, length, Readout.of_mean(length, head))


def _family(module: Any) -> Family:
    kind = module.config.model_type
    if kind not in FAMILIES:
        raise UserError(
            f"no steps for a model of type {kind}, which cannot be certified: there are {', '.join(FAMILIES)}."
        )
    return FAMILIES[kind]

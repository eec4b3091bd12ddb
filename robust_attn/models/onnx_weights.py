"""The prompt-injection detector out of its ONNX file: a BertModel and a small classifier, as safetensors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from robust_attn.models.quiet import reason
from robust_attn.types import UserError

ENCODER_PREFIX = "encoder."
CLASSIFIER_PREFIX = "classifier."
HEADS = 12
"""The graph knows the number of heads only through reshapes; the adapter's self-check would not see a wrong one."""


def convert_onnx(onnx_file: Path) -> None:
    """Writes model.safetensors, classifier.safetensors and config.json beside the ONNX file, and removes it."""
    from safetensors.torch import save_file

    tensors = named_tensors(onnx_file)
    encoder = _under(tensors, ENCODER_PREFIX)
    classifier = _under(tensors, CLASSIFIER_PREFIX)
    folder = onnx_file.parent
    try:
        configuration = _config(encoder)
    except (KeyError, ValueError, IndexError) as error:
        raise UserError(f"{onnx_file.name} does not hold the weights of the detector: {reason(error)}") from error
    save_file(encoder, folder / "model.safetensors", metadata={"format": "pt"})
    save_file(classifier, folder / "classifier.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(configuration, indent=1), encoding="utf-8")
    onnx_file.unlink()


def named_tensors(onnx_file: Path) -> dict[str, Tensor]:
    """Initialisers by parameter name: anonymous MatMul weights take the name of their node and are transposed."""
    import onnx
    from onnx import numpy_helper

    try:
        graph = onnx.load(str(onnx_file)).graph
    except Exception as error:
        raise UserError(f"{onnx_file.name} is not a readable ONNX file: {reason(error)}") from error
    stored = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    places = {item: node.name for node in graph.node if node.op_type == "MatMul" for item in node.input}
    tensors = {}
    for name, array in stored.items():
        tensor = torch.from_numpy(array.copy())
        if name.startswith((ENCODER_PREFIX, CLASSIFIER_PREFIX)):
            tensors[name] = tensor
        elif name in places:
            tensors[_parameter_name(places[name])] = tensor.T.contiguous()
    return tensors


def _parameter_name(node: str) -> str:
    """/encoder/encoder/layer.0/attention/self/query/MatMul is the weight encoder.encoder.layer.0.[...].query.weight."""
    return ".".join([*node.strip("/").split("/")[:-1], "weight"])


def _under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _config(encoder: Mapping[str, Tensor]) -> dict[str, Any]:
    vocabulary, width = encoder["embeddings.word_embeddings.weight"].shape
    layers = {name.split(".")[2] for name in encoder if name.startswith("encoder.layer.")}
    return {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "vocab_size": vocabulary,
        "hidden_size": width,
        "num_hidden_layers": len(layers),
        "num_attention_heads": HEADS,
        "intermediate_size": encoder["encoder.layer.0.intermediate.dense.weight"].shape[0],
        "max_position_embeddings": encoder["embeddings.position_embeddings.weight"].shape[0],
        "type_vocab_size": encoder["embeddings.token_type_embeddings.weight"].shape[0],
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
    }

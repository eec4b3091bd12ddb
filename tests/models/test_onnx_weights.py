from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import load_file

from robust_attn.models.onnx_weights import convert_onnx, named_tensors
from robust_attn.types import UserError

LAYER = "encoder.encoder.layer.0"
NAMED = {
    "encoder.embeddings.word_embeddings.weight": (50, 12),
    "encoder.embeddings.position_embeddings.weight": (16, 12),
    "encoder.embeddings.token_type_embeddings.weight": (2, 12),
    f"{LAYER}.attention.self.query.bias": (12,),
    "classifier.bias": (2,),
}
ANONYMOUS = {
    "onnx::MatMul_1": ("/encoder/encoder/layer.0/attention/self/query/MatMul", (12, 12)),
    "onnx::MatMul_2": ("/encoder/encoder/layer.0/intermediate/dense/MatMul", (12, 24)),
    "onnx::MatMul_3": ("/classifier/MatMul", (12, 2)),
}


@pytest.fixture
def onnx_file(tmp_path):
    """A graph as torch exports them: biases keep their names, weights of linear maps are transposed and nameless."""
    rng = np.random.default_rng(0)
    shapes = NAMED | {name: shape for name, (_, shape) in ANONYMOUS.items()} | {"onnx::Shape_9": (3,)}
    stored = [numpy_helper.from_array(rng.random(shape, dtype=np.float32), name) for name, shape in shapes.items()]
    nodes = [helper.make_node("MatMul", ["x", name], [f"y{name}"], name=node) for name, (node, _) in ANONYMOUS.items()]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 12])
    output = helper.make_tensor_value_info("yonnx::MatMul_3", TensorProto.FLOAT, [None, 2])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(helper.make_graph(nodes, "graph", [given], [output], stored)), str(path))
    return path


def _stored(onnx_file):
    return {item.name: numpy_helper.to_array(item) for item in onnx.load(str(onnx_file)).graph.initializer}


def test_nameless_weights_get_their_name_and_their_orientation_back(onnx_file):
    stored, tensors = _stored(onnx_file), named_tensors(onnx_file)
    weight = tensors[f"{LAYER}.attention.self.query.weight"]
    assert torch.equal(weight, torch.from_numpy(stored["onnx::MatMul_1"].T.copy()))
    assert weight.is_contiguous()
    assert tensors[f"{LAYER}.intermediate.dense.weight"].shape == (24, 12)
    assert torch.equal(tensors["classifier.bias"], torch.from_numpy(stored["classifier.bias"].copy()))
    assert set(tensors) == {
        *NAMED,
        f"{LAYER}.attention.self.query.weight",
        f"{LAYER}.intermediate.dense.weight",
        "classifier.weight",
    }


def test_the_file_becomes_safetensors_and_a_configuration_and_is_gone(onnx_file):
    convert_onnx(onnx_file)
    folder = onnx_file.parent
    names = {path.name for path in folder.iterdir()}
    assert names == {"model.safetensors", "classifier.safetensors", "config.json"}
    config = json.loads((folder / "config.json").read_text())
    wanted = {"vocab_size": 50, "hidden_size": 12, "num_hidden_layers": 1, "intermediate_size": 24}
    assert config | wanted | {"max_position_embeddings": 16, "type_vocab_size": 2, "model_type": "bert"} == config
    assert set(load_file(folder / "classifier.safetensors")) == {"weight", "bias"}
    assert "encoder.layer.0.attention.self.query.weight" in load_file(folder / "model.safetensors")


def test_a_file_that_is_no_onnx_is_a_users_error_and_stays(tmp_path):
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"\xff\xfe no graph")
    with pytest.raises(UserError, match=r"broken\.onnx is not a readable ONNX file"):
        convert_onnx(path)
    assert path.exists()
